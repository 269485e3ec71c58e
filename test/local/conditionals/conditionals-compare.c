/* SPDX-License-Identifier: Apache-2.0 */
/* Asks all questions about conditional nodes, each in a process of its own, and compares the answers with a file. */
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/local/conditionals/conditionals.h"

/* The line of a question: its name, what its process printed, and how that ended if not well. */
struct answer {
	char text[512];
	size_t length;
};

__attribute__((format(printf, 2, 3))) static void append(struct answer *a, const char *format, ...)
{
	va_list arguments;
	int more;

	va_start(arguments, format);
	more = vsnprintf(a->text + a->length, sizeof(a->text) - a->length, format, arguments);
	va_end(arguments);
	if (more > 0)
		a->length += (size_t)more;
	if (a->length >= sizeof(a->text))
		a->length = sizeof(a->text) - 1;
}

/* A question prints one line. */
static void read_answer(struct answer *a, int fd)
{
	char bytes[256];
	ssize_t count;

	while ((count = read(fd, bytes, sizeof(bytes) - 1)) > 0) {
		bytes[count] = 0;
		for (ssize_t i = 0; i < count; i++)
			if (bytes[i] == '\n')
				bytes[i] = ' ';
		append(a, "%s", bytes);
	}
}

/* False: the process did not end well, or there was none. */
static bool ask_in_child(const char *program, const char *name, struct answer *a)
{
	int pipes[2], status;
	pid_t child;

	*a = (struct answer){.length = 0};
	append(a, "%s:", name);
	if (pipe(pipes))
		return false;
	child = fork();
	if (!child) {
		dup2(pipes[1], STDOUT_FILENO);
		close(pipes[0]);
		close(pipes[1]);
		execl(program, program, "ask", name, NULL);
		_exit(127);
	}
	close(pipes[1]);
	if (child > 0)
		read_answer(a, pipes[0]);
	close(pipes[0]);
	if (child < 0 || waitpid(child, &status, 0) != child)
		return false;
	if (WIFSIGNALED(status))
		append(a, WTERMSIG(status) == SIGALRM ? " does not end" : " signal %d", WTERMSIG(status));
	else if (WEXITSTATUS(status))
		append(a, " exit status %d", WEXITSTATUS(status));
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

/* The line of a question in a file of them. False: there is none. */
static bool find_line(FILE *lines, const char *name, char *line, int room)
{
	const size_t length = strlen(name);

	rewind(lines);
	while (fgets(line, room, lines)) {
		if (strncmp(line, name, length) || line[length] != ':')
			continue;
		line[strcspn(line, "\n")] = 0;
		return true;
	}
	return false;
}

int ask_all(const char *program, const char *expected)
{
	FILE *lines = expected ? fopen(expected, "r") : NULL;
	unsigned int asked = 0, lost = 0, compared = 0, different = 0;
	const char *name;
	struct answer a;
	char line[512];

	if (expected && !lines) {
		perror(expected);
		return 2;
	}
	while ((name = question_name(asked))) {
		asked++;
		lost += !ask_in_child(program, name, &a);
		printf("%s\n", a.text);
		if (!lines || !find_line(lines, name, line, sizeof(line)))
			continue;
		compared++;
		if (!strcmp(line, a.text))
			continue;
		different++;
		printf("not %s\n", line);
	}
	printf("conditionals: %u of %u questions without an answer\n", lost, asked);
	if (!lines)
		return lost != 0;
	fclose(lines);
	printf("conditionals: %u of %u answers differ\n", different, compared);
	return lost || different || !compared;
}
