/* SPDX-License-Identifier: Apache-2.0 */
#include "ptx/ptx-forms.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct need {
	uint16_t version, last_version, target, last_target;
	bool specific; /* only targets with the suffix a or f */
};

struct choice {
	const char *word;
	uint8_t need;
};

/* One of some words. follows: present only if the slot before it is. any: any number of words. */
struct slot {
	uint16_t first;
	uint8_t count;
	bool optional, follows, any;
};

/* Modifiers may stand in any order, types not. */
struct form {
	const char *opcode;
	const char *operands; /* as in ptx-opcodes.h, for forms that the compiler lacks; NULL: not recorded */
	uint16_t first;
	uint8_t mods, types;
	uint8_t need;
};

#include "ptx-forms-table.h"

#define FORMS (sizeof(forms) / sizeof(forms[0]))
#define CHOICES (sizeof(choices) / sizeof(choices[0]))
#define MOST_WORDS 32 /* no name has as many */

struct word {
	const char *text;
	size_t length;
};

/* A name, and the result of its parsing. */
struct name {
	struct word words[MOST_WORDS];
	unsigned count, opcode, longest; /* words; how many of them a form's opcode has, and the longest one */
	const struct ptx_dialect *dialect;
	bool reasons;             /* the rest is found out, which takes longer */
	uint32_t known;           /* of the words: those that a form of the opcode has */
	bool types;               /* a form has all but the types */
	const struct need *need;  /* of a form that has all, but is not for the dialect */
	const char *feature;      /* the word that has this need; NULL: the form */
};

static bool is_word(const struct word *word, const char *text)
{
	return !strncmp(text, word->text, word->length) && !text[word->length];
}

static bool is_in(const char *const *list, const struct word *word)
{
	while (*list && !is_word(word, *list))
		list++;
	return *list;
}

static bool is_repeated(const struct name *name, unsigned at)
{
	const struct word *word = &name->words[at];

	for (unsigned n = 0; n < at; n++)
		if (name->words[n].length == word->length && !memcmp(name->words[n].text, word->text, word->length))
			return true;
	return false;
}

static bool is_first_of(const char *const *list, const struct name *name, unsigned at)
{
	for (unsigned n = 0; n < at; n++)
		if (is_in(list, &name->words[n]))
			return false;
	return is_in(list, &name->words[at]);
}

/* Whether no other word of the name is in the list. */
static bool is_only_of(const char *const *list, const struct name *name, unsigned at)
{
	for (unsigned n = 0; n < name->count; n++)
		if (n != at && is_in(list, &name->words[n]))
			return false;
	return is_in(list, &name->words[at]);
}

/* Words that ptxas takes and ignores. */
static bool is_extra(const struct name *name, unsigned at, const char *opcode)
{
	const struct word *word = &name->words[at];

	if (is_in(references, word))
		return is_in(referring, &(struct word){opcode, strlen(opcode)});
	return is_in(packings, word) || is_first_of(states, name, at) || is_only_of(fields, name, at) ||
	       (is_in(again, word) && is_repeated(name, at));
}

static bool satisfied(const struct need *need, const struct ptx_dialect *d)
{
	return d->version >= need->version && d->version <= need->last_version && d->target >= need->target &&
	       d->target <= need->last_target && (!need->specific || d->suffix);
}

static bool split(struct name *name, const char *text, size_t length)
{
	const char *end = text + length;

	while (text <= end) {
		const char *dot = memchr(text, '.', (size_t)(end - text));

		dot = dot ? dot : end;
		if (name->count == MOST_WORDS)
			return false;
		name->words[name->count++] = (struct word){text, (size_t)(dot - text)};
		text = dot + 1;
	}
	return true;
}

/* The number of words of the name that are this opcode; 0: another opcode. */
static unsigned opcode_words(const struct name *name, const char *opcode)
{
	unsigned count = 0;

	for (;;) {
		size_t length = strcspn(opcode, ".");

		if (count == name->count || name->words[count].length != length ||
		    memcmp(name->words[count].text, opcode, length))
			return 0;
		count++;
		if (!opcode[length])
			return count;
		opcode += length + 1;
	}
}

static const struct choice *find_choice(const struct slot *slot, const struct word *word)
{
	for (unsigned n = 0; n < slot->count; n++)
		if (is_word(word, choices[slot->first + n].word))
			return &choices[slot->first + n];
	return NULL;
}

/* The match of a name with a form. */
struct fit {
	const struct form *form;
	uint32_t used; /* slots */
	unsigned type; /* the next one */
	bool any, types;
	const struct need *need;
	const char *feature;
};

static void note_need(struct fit *fit, const struct choice *choice, const struct ptx_dialect *dialect)
{
	const struct need *need = &needs[choice->need];

	if (fit->need || satisfied(need, dialect))
		return;
	fit->need = need;
	fit->feature = choice->word;
}

static bool take_modifier(struct fit *fit, const struct name *name, const struct word *word)
{
	const struct slot *slot = &slots[fit->form->first];

	for (unsigned n = 0; n < fit->form->mods; n++) {
		const struct choice *choice = fit->used >> n & 1 ? NULL : find_choice(&slot[n], word);

		if (!choice)
			continue;
		fit->used |= 1u << n;
		note_need(fit, choice, name->dialect);
		return true;
	}
	return false;
}

static bool take_type(struct fit *fit, const struct name *name, const struct word *word)
{
	const struct slot *slot = &slots[fit->form->first + fit->form->mods];

	for (unsigned n = fit->type; n < fit->form->types; n++) {
		const struct choice *choice = find_choice(&slot[n], word);

		if (choice) {
			fit->type = n + 1;
			note_need(fit, choice, name->dialect);
			return true;
		}
		if (!slot[n].optional)
			return false;
	}
	return false;
}

/* Whether there is all that must be. */
static bool complete(const struct fit *fit)
{
	const struct slot *slot = &slots[fit->form->first];

	for (unsigned n = 0; n < fit->form->mods; n++) {
		bool used = fit->used >> n & 1;

		if (slot[n].follows ? used != (fit->used >> (n - 1) & 1)
				    : !used && !slot[n].optional && !slot[n].any)
			return false;
	}
	return true;
}

static bool types_complete(const struct fit *fit)
{
	for (unsigned n = fit->type; n < fit->form->types; n++)
		if (!slots[fit->form->first + fit->form->mods + n].optional)
			return false;
	return true;
}

/* Lays the words over a form, and notes in the name which of them it has, if reasons are asked for. */
static bool lay(struct fit *fit, struct name *name)
{
	bool all = true;

	for (unsigned n = 0; n < fit->form->mods; n++)
		fit->any |= slots[fit->form->first + n].any;
	for (unsigned n = name->opcode; n < name->count; n++) {
		bool has = take_modifier(fit, name, &name->words[n]) || take_type(fit, name, &name->words[n]) ||
			   fit->any || is_extra(name, n, fit->form->opcode);

		all &= has;
		if (!all && !name->reasons)
			return false;
		name->known |= has ? 1u << n : 0;
	}
	return all;
}

static bool fits(const struct form *form, struct name *name)
{
	struct fit fit = {.form = form};
	bool all = lay(&fit, name);

	if (!complete(&fit))
		return false;
	name->types |= !types_complete(&fit);
	if (!all || !types_complete(&fit))
		return false;
	if (!fit.need && satisfied(&needs[form->need], name->dialect))
		return true;
	if (!name->need) {
		name->need = fit.need ? fit.need : &needs[form->need];
		name->feature = fit.need ? fit.feature : NULL;
	}
	return false;
}

static void say_need(const struct name *name, const char *text, size_t length, char *why, size_t room)
{
	const struct need *need = name->need;
	char what[96];

	if (name->feature)
		snprintf(what, sizeof(what), "Feature '.%s'", name->feature);
	else
		snprintf(what, sizeof(what), "Instruction '%.*s'", (int)(length < 60 ? length : 60), text);
	if (name->dialect->version < need->version)
		snprintf(why, room, "%s requires PTX ISA .version %u.%u or later", what, need->version / 10,
			 need->version % 10);
	else if (name->dialect->target < need->target)
		snprintf(why, room, "%s requires .target sm_%u%s or higher", what, need->target,
			 need->specific ? "a" : "");
	else
		snprintf(why, room, "%s not supported on .target 'sm_%u%s' with PTX ISA .version %u.%u", what,
			 name->dialect->target, (char[]){name->dialect->suffix, 0}, name->dialect->version / 10,
			 name->dialect->version % 10);
}

static bool is_modifier(const struct word *word)
{
	for (size_t n = 0; n < CHOICES; n++)
		if (is_word(word, choices[n].word))
			return true;
	return false;
}

static bool is_type(const struct word *word)
{
	for (size_t f = 0; f < FORMS; f++)
		for (unsigned n = 0; n < forms[f].types; n++)
			if (find_choice(&slots[forms[f].first + forms[f].mods + n], word))
				return true;
	return false;
}

/* The first word that no form of the opcode has, or NULL. */
static const struct word *strange_word(const struct name *name)
{
	for (unsigned n = name->longest; n < name->count; n++)
		if (!(name->known >> n & 1))
			return &name->words[n];
	return NULL;
}

static void explain(const struct name *name, const char *text, size_t length, char *why, size_t room)
{
	const struct word *strange = strange_word(name);
	int shown = strange ? (int)(strange->length < 60 ? strange->length : 60) : 0;
	const struct word *last = &name->words[name->longest ? name->longest - 1 : 0];
	size_t end = (size_t)(last->text + last->length - text);
	int opcode = (int)(end < 60 ? end : 60);

	if (!name->longest)
		snprintf(why, room, "Not a name of any known instruction: '%.*s'", opcode, text);
	else if (name->need)
		say_need(name, text, length, why, room);
	else if (strange && !is_modifier(strange))
		snprintf(why, room, "Unknown modifier '.%.*s'", shown, strange->text);
	else if (strange && !is_type(strange))
		snprintf(why, room, "Illegal modifier '.%.*s' for instruction '%.*s'", shown, strange->text, opcode,
			 text);
	else if (strange || name->types)
		snprintf(why, room, "Unexpected instruction types specified for '%.*s'", opcode, text);
	else
		snprintf(why, room, "Illegal or missing modifiers for instruction '%.*s'", opcode, text);
}

/* Compares the first words. */
static int compare(const struct form *form, const struct word *word)
{
	int order = strncmp(form->opcode, word->text, word->length);

	return order ? order : form->opcode[word->length] != 0 && form->opcode[word->length] != '.';
}

static size_t first_form(const struct word *word)
{
	size_t low = 0, high = FORMS;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (compare(&forms[middle], word) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static const struct form *find_form(struct name *name)
{
	for (size_t f = first_form(&name->words[0]); f < FORMS && !compare(&forms[f], &name->words[0]); f++) {
		name->opcode = opcode_words(name, forms[f].opcode);
		if (name->opcode > name->longest)
			name->longest = name->opcode;
		if (name->opcode && fits(&forms[f], name))
			return &forms[f];
	}
	return NULL;
}

bool ptx_form_legal(const char *text, size_t length, const struct ptx_dialect *dialect, const char **operands, char *why,
		    size_t room)
{
	struct name name = {.dialect = dialect};
	bool few = split(&name, text, length);
	const struct form *form = few ? find_form(&name) : NULL;

	if (form) {
		*operands = form->operands;
		return true;
	}
	name.reasons = true;
	name.types = false;
	if (few)
		find_form(&name);
	explain(&name, text, length, why, room);
	return false;
}
