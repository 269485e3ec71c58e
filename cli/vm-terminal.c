/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's terminal, which the program in the VM has as if it ran here. */
#include <errno.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "vm.h"

static struct {
	bool raw;
	struct termios before;
} terminal;

bool vm_terminal_is_ours(void)
{
	pid_t foreground;

	if (!isatty(STDIN_FILENO))
		return false;
	foreground = tcgetpgrp(STDIN_FILENO);
	/* None: it is not this session's terminal, and stops no process. */
	return foreground < 0 || foreground == getpgrp();
}

bool vm_terminal_size(unsigned short *rows, unsigned short *columns)
{
	struct winsize size;

	if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size))
		return false;
	*rows = size.ws_row;
	*columns = size.ws_col;
	return true;
}

/* The guest's terminal echoes, edits lines and makes signals of keys. */
bool vm_terminal_enter(void)
{
	struct termios raw;

	if (!terminal.raw && tcgetattr(STDIN_FILENO, &terminal.before))
		return false;
	raw = terminal.before;
	cfmakeraw(&raw);
	terminal.raw = !tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
	return terminal.raw;
}

void vm_terminal_leave(void)
{
	if (terminal.raw)
		tcsetattr(STDIN_FILENO, TCSADRAIN, &terminal.before);
	terminal.raw = false;
}
