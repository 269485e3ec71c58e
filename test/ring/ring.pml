/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sleeping and waking of ring/ring.c, guest/client/call.c and host/worker/queue/dispatcher.c, as a model: every access to shared memory is one
 * step, and steps interleave in every way, which is what seq_cst promises.
 *
 * Two guest threads each send a synchronous command and wait for its reply, the first an asynchronous one before it. A pool of worker
 * threads serves the ring: the owner of the dispatcher takes commands in order and gives the dispatcher up while it runs a synchronous one.
 * The first guest thread's synchronous command ends only after the second's (it waits for an event, say): one must not stall the other.
 * The ring holds fewer commands than are sent: who finds no room waits for it, with the ring's lock.
 * SPARE 1: a worker thread that has lost the dispatcher may be spare, and gets it without a flag and a ring. Its time may end at any step.
 * One thread is spare from the beginning.
 * ASYNC 0: nobody sends the asynchronous command. A fifth of the states; all mistakes but the last are found in them too.
 *
 * Checked: nobody sleeps for ever (no invalid end state), every command is taken, one owner at a time.
 *
 * MUTATION makes one mistake on purpose; the model must then fail (see run-model.sh):
 *   1 the consumer says that it sleeps after it has looked for the last time
 *   2 the publisher reads the flag before it stores its index
 *   3 a waiter looks for its reply before it says that it waits
 *   4 the worker looks for waiters before it stores the reply
 *   5 the owner gives the dispatcher up without looking once more
 *   6 a synchronous command keeps the dispatcher
 *   7 a waiter reads the wake word after it has looked for its reply
 *   8 the owner that gives the dispatcher up looks at the ring once more, but not at its flag
 *   9 who waits for room looks for it before it says so
 *  10 the consumer looks whether somebody waits for room before it makes some
 *  11 the consumer takes back the wish for room that is there, and not the one it has seen
 *  12 the spare thread whose time ends looks whether it has the dispatcher, and then says that it is not spare (with SPARE 1)
 */
#ifndef MUTATION
#define MUTATION 0
#endif

#define GUESTS 2
#ifndef LANES
#define LANES 2
#endif
#ifndef ASYNC
#define ASYNC 1
#endif
#ifndef SPARE
#define SPARE 0
#endif
#define COMMANDS (2 + ASYNC)
#ifndef ROOM
#define ROOM 1			/* commands in the ring */
#endif

/* The shared area. */
byte tail;
bool consumer_sleeps;
byte waiters;
byte wake;
byte room_at;			/* `head` is to be this for who waits for room; 0: nobody does */
byte done[GUESTS];		/* the reply slots */

/* What was published: guest * 2 + sync. The ring's bytes: no race, publish and take are what is modelled. */
byte command[COMMANDS];

bool ring_lock;			/* guest process */
bool asleep[GUESTS];		/* in the futex, or in the kernel's WAIT */
bool doorbell;			/* eventfd: a counter that one read empties */

/* The worker. `head` belongs to the owner of the dispatcher, and is published as it moves. */
bool owned;
byte head;
bool spare, passed;		/* a thread is spare; and it was made the owner */

inline wake_guest() {
	atomic {
		asleep[0] = false;
		asleep[1] = false
	}
}

inline tell_waiters() {
	if
	:: waiters > 0 -> wake++; wake_guest()
	:: else
	fi
}

/* Who makes room does not look at `waiters`: left alone here, so that a reply's wake-up does not stand in for a lost one. */
inline wait_room() {
	do
	:: tail - head < ROOM -> break
	:: else ->
#if MUTATION == 9
		missing = (tail - head >= ROOM);
		room_at = tail - ROOM + 1;
		seen = wake;
#else
		room_at = tail - ROOM + 1;
		seen = wake;
		missing = (tail - head >= ROOM);
#endif
		if
		:: atomic { missing -> asleep[guest] = (wake == seen); missing = false; seen = 0 }
			!asleep[guest]
		:: atomic { else -> seen = 0 }
		fi
	od
}

inline publish(sync) {
	atomic { !ring_lock -> ring_lock = true }
	wait_room();
	command[tail] = guest * 2 + sync;
#if MUTATION == 2
	sleeps = consumer_sleeps;
	tail++;
#else
	tail++;
	sleeps = consumer_sleeps;
#endif
	if
	:: atomic { sleeps -> ring = consumer_sleeps; consumer_sleeps = false; sleeps = false }
	:: else
	fi;
	ring_lock = false;
	if
	:: atomic { ring -> doorbell = true; ring = false }
	:: else
	fi
}

inline wait_reply() {
	do
	:: done[guest] -> break
	:: else ->
#if MUTATION == 3
		missing = !done[guest];
		waiters++;
		seen = wake;
#elif MUTATION == 7
		waiters++;
		missing = !done[guest];
		seen = wake;
#else
		waiters++;
		seen = wake;
		missing = !done[guest];
#endif
		if
		:: atomic { missing -> asleep[guest] = (wake == seen); missing = false; seen = 0 }
			!asleep[guest]
		:: atomic { else -> seen = 0 }
		fi;
		waiters--
	od
}

proctype guest_thread(byte guest) {
	bool sleeps, ring, missing;
	byte seen;

	if
	:: ASYNC && guest == 0 -> publish(0)
	:: else
	fi;
	publish(1);
	wait_reply();
	assert(done[guest] == 1)
}

/* The outcome in `ok`. */
inline own() {
	atomic { ok = !owned; owned = true }
}

inline prepare_sleep() {
#if MUTATION == 1
	ok = (tail == head)
#else
	consumer_sleeps = true;
	ok = (tail == head);
	if
	:: !ok -> consumer_sleeps = false
	:: else
	fi
#endif
}

/* `ok`: there is work, and we own the dispatcher again. */
inline disown_idle() {
	atomic { at = head; owned = false }
#if MUTATION == 5
	ok = false;
#else
	atomic { ok = (tail != at); at = 0 }
#endif
#if MUTATION == 1
	consumer_sleeps = true;
#elif MUTATION != 5 && MUTATION != 8
	/* The flag was taken: the ring may have gone to a follower that found the dispatcher owned, and nobody would be rung again. */
	if
	:: !ok -> ok = !consumer_sleeps
	:: else
	fi;
#endif
	if
	:: ok -> own()
	:: else
	fi
}

inline run_sync() {
	if
	:: who == 0 -> done[1]		/* depends on the other's command */
	:: else
	fi;
#if MUTATION == 4
	told = waiters;
	done[who] = 1;
	if
	:: told > 0 -> wake++; wake_guest()
	:: else
	fi
#else
	done[who] = 1;
	tell_waiters()
#endif
}

inline give_up_lane() {
	if
	:: atomic { spare && !passed -> passed = true }
	:: atomic { else -> ok = false }
		prepare_sleep();
		if
		:: ok -> disown_idle(); ok = !ok
		:: else
		fi;
		/* ok: nothing is left to do, the next publisher rings. Else there is work, and we are still the owner. */
		if
		:: !ok -> owned = false; doorbell = true
		:: else
		fi
	fi
}

proctype lane_thread(bool begins_spare) {
	byte who, at, told;
	bool ok, sync;

	if
	:: begins_spare -> goto be_spare
	:: else
	fi;
end_idle:
	atomic { doorbell -> doorbell = false }
	own();
	if
	:: ok -> ok = false
	:: else -> goto end_idle
	fi;
awake:
	atomic { consumer_sleeps = false; ok = false }
lead:
	if
	:: atomic { tail != head ->
			assert(owned);
			who = command[head] / 2;
			sync = command[head] % 2
		}
#if MUTATION == 10
		told = room_at;
		head++;
		if
		:: told != 0 && head >= told -> room_at = 0; wake++; wake_guest()
		:: else
		fi;
		told = 0;
#else
		head++;
		told = room_at;
		do
#if MUTATION == 11
		:: told != 0 && head >= told -> room_at = 0; wake++; wake_guest(); break
#else
		:: told != 0 && head >= told ->
			if
			:: atomic { told == room_at -> room_at = 0 }
				wake++;
				wake_guest();
				break
			:: else -> told = room_at
			fi
#endif
		:: else -> break
		od;
		told = 0;
#endif
		if
		:: atomic { !sync -> who = 0 }
		:: else ->
#if MUTATION == 6
			run_sync()
#else
			give_up_lane();
			run_sync();
			atomic { who = 0; sync = false }
			own();
			if
			:: ok -> goto awake
			:: else
			fi;
			goto be_spare
#endif
		fi;
		goto lead
	:: else ->
		prepare_sleep();
		if
		:: !ok -> goto lead
		:: else
		fi;
		disown_idle();
		if
		:: ok -> goto awake
		:: else -> goto end_idle
		fi
	fi;
be_spare:
	if
	:: atomic { SPARE && !spare -> spare = true }
	:: goto end_idle
	fi;
	if
	:: atomic { passed -> passed = false; spare = false; ok = false }
		goto lead
#if MUTATION == 12
	:: atomic { !passed -> ok = true }
		spare = false;
		goto end_idle
#else
	:: atomic { !passed -> spare = false }
		goto end_idle
#endif
	fi
}

init {
	byte i;

	atomic {
		doorbell = true;	/* the first commands may be there already */
		i = 0;
		do
		:: i < GUESTS -> run guest_thread(i); i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < LANES -> run lane_thread(SPARE && i == 1); i++
		:: else -> break
		od
	}
}
