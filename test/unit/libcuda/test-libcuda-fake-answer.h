/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers to calls, in a switch over their numbers: CASE(call) ... REPLY(call) or END. The arguments are in `a`. The
 * function has a reader `r` of the command, a writer `w` of the reply and an `arena`.
 */
#ifndef VCUDA_TEST_LIBCUDA_FAKE_ANSWER_H
#define VCUDA_TEST_LIBCUDA_FAKE_ANSWER_H

#define CASE(name)                                                                                                     \
	case VCUDA_OP_##name: {                                                                                        \
		struct vcuda_args_##name a = {0};                                                                      \
		vcuda_decode_##name(&r, &arena, &a);
#define REPLY(name)                                                                                                    \
	vcuda_encode_reply_##name(w, &a);                                                                              \
	return CUDA_SUCCESS;                                                                                           \
	}
#define END                                                                                                            \
	return CUDA_SUCCESS;                                                                                           \
	}

#endif
