/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the probes of conditional nodes. Each works on a memory of WORDS words of 4 bytes, which are 0 at first. */
#ifndef TEST_LOCAL_CONDITIONALS_H
#define TEST_LOCAL_CONDITIONALS_H

#include "test/local/api.h"

#define WORDS 8

/* A probe goes on after what it finds. */
void expect(bool right, const char *what, int line);

#define EXPECT(condition) expect(condition, #condition, __LINE__)

CUdeviceptr word(unsigned int i);
void put(unsigned int i, uint32_t value);
uint32_t get(unsigned int i);

/*
 * set(u64 c, u32 v): the condition c is v. from(u64 c, u32 *p): it is p[0]. down(u64 c, u32 *p): p[0] is one less, and
 * the condition is p[0]. add(u32 *p, u32 k): p[0] is k more. hold(u32 *p): until p[0] is not 0. wild(): to nowhere.
 */
CUfunction function(const char *name);

/* The parameters of a kernel, which live until the next call. */
CUDA_KERNEL_NODE_PARAMS kernel_params(const char *name, uint64_t first, uint64_t second);

/* Behind `after`, unless that is NULL. */
CUgraphNode kernel(CUgraph g, CUgraphNode after, const char *name, uint64_t first, uint64_t second);

CUcontext current(void);
CUgraphConditionalHandle condition(CUgraph g, unsigned int value, unsigned int flags);
CUgraphNodeParams conditional_params(CUgraphConditionalHandle c, CUgraphConditionalNodeType type, unsigned int size);

/* Gives the bodies. `node` may be NULL. */
CUgraph *conditional(CUgraph g, CUgraphNode after, CUgraphConditionalHandle c, CUgraphConditionalNodeType type,
		     unsigned int size, CUgraphNode *node);

CUgraph new_graph(void);
/* word(0) times word(1) is 3 more. */
CUgraph loop(CUgraphNode *node, CUgraph *body);
CUgraphExec instantiate(CUgraph g);
void launch(CUgraphExec e);
/* The graph is launched `times` times, and is gone then. */
void run(CUgraph g, unsigned int times);

/*
 * Launches a loop that never ends, whose body has a kernel (`kernel`), nothing (`empty`) or another such loop
 * (`nested`). Waits for it and prints the error, or until its input ends.
 */
int endless(const char *shape, bool wait);

/* conditionals-ask.c: asks one question and prints the answer. The exit status: 2 if there is no such question. */
int ask(const char *name);
/* NULL: there are no more. */
const char *question_name(size_t i);

/*
 * conditionals-compare.c: all questions in processes of the program's name, and one line of the answer for each.
 * `expected`: a file of lines that are compared, or NULL. The exit status: 0 if each question has an answer, and none
 * differs from its line in the file.
 */
int ask_all(const char *program, const char *expected);

/* The probes of conditionals-life.c. */
void asynchronous(void);
void two_streams(void);
void side_by_side(void);
void whole_context(void);
void changed_between(void);
void without_its_graph(void);
void capture_body(void);
void capture_around(void);
void set_params(void);
void more_conditions(void);
void update(void);
void instantiate_again(void);
void another_node(void);
void questions(void);
void wrong_nodes(void);
void wrong_uses(void);
void unused_condition(void);
void fault(void);

#endif
