/* SPDX-License-Identifier: Apache-2.0 */
#include "worker/overcommit.h"

#include "common/log.h"
#include "limits/arbiter.h"
#include "limits/ledger.h"
#include "worker/gates.h"
#include "worker/worker.h"

/* Time for the work of a VM that must go out to end. */
#define DRAIN_MS 2000

/* How often the workers' work is looked at, and after how many looks without work the VM rests. */
#define LOOK_MS 50
#define QUIET_LOOKS 4

/* A grant that is not used goes back after so many looks. */
#define SURPLUS_LOOKS 20

/* Until memory that did not come back is tried again. */
#define RETRY_MS 5000

/* Another arbiter mostly takes the place of one that has ended sooner than that. */
#define MISSED_MS 1000

/* Grants come in chunks of this part of the capacity, within these bounds. */
#define CHUNK_PART 64
#define CHUNK_LEAST (1ull << 16)
#define CHUNK_MOST (64ull << 20)

enum place { IN, GOING_OUT, OUT, COMING_IN };

static struct {
	struct daemon_loop *loop;
	const struct daemon_options *options;
	struct daemon_timer look, retry, missed;
	enum place place;
	uint64_t granted;       /* by the arbiter; of a VM that is out: what it has elsewhere, as the arbiter knows */
	uint64_t left;          /* bytes of the VM when it went out */
	uint64_t want;          /* of the WANT that has no answer yet; 0: none */
	unsigned int cancelled; /* WANTs of 0 that have no answer yet */
	uint64_t began, took;   /* ms: the last way out or in */
	uint64_t capacity, wait, times;
	bool admitted, refused, lost;
	bool hurried; /* since the last look: a WANT was sent before the answer to the one before */
	bool busy;    /* as the arbiter knows */
	uint32_t begun, commands;
	unsigned int quiet, surplus;
} state;

static uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t capacity(void)
{
	return state.capacity ? state.capacity : state.options->overcommit;
}

static uint64_t chunk(void)
{
	uint64_t part = capacity() / CHUNK_PART;

	return part < CHUNK_LEAST ? CHUNK_LEAST : part > CHUNK_MOST ? CHUNK_MOST : part;
}

static void say(enum vcuda_arbiter_type type, uint64_t bytes, uint64_t spare)
{
	struct vcuda_arbiter_message m = {.type = type, .bytes = bytes, .spare = spare};

	daemon_arbiter_say(&m);
}

static void say_out(void)
{
	state.granted = daemon_ledger_sum();
	daemon_arbiter_say(&(struct vcuda_arbiter_message){
		.type = VCUDA_ARBITER_OUT, .ms = (uint32_t)state.took, .bytes = state.granted});
}

static void say_in(void)
{
	daemon_arbiter_say(&(struct vcuda_arbiter_message){.type = VCUDA_ARBITER_IN,
							   .ms = (uint32_t)(daemon_now() - state.began)});
}

/* ---- what the VM needs ---- */

/* A process that the operator or the guest holds needs nothing. */
static bool counts(const struct daemon_ledger_row *row)
{
	return daemon_gate_needed(&container_of(row, struct daemon_worker, ledger)->gate) == DAEMON_GATE_OPEN;
}

static void add_work(struct daemon_ledger_row *row, void *sum)
{
	struct daemon_ledger_work *work = sum;
	bool waiting = work->waiting;

	daemon_ledger_row_work(row, work);
	if (!counts(row))
		work->waiting = waiting;
}

static bool is_needed(void)
{
	struct daemon_ledger_work work = {0};

	daemon_ledger_each(add_work, &work);
	return work.waiting || daemon_ledger_wanted() || daemon_gate_is_resumed();
}

/*
 * The arbiter answers each WANT. Between two looks at most one is sent before the last one has its answer: a worker
 * that asks again and again does not fill the socket.
 */
static bool may_ask(void)
{
	bool is_unanswered = state.want || state.cancelled;

	if (!daemon_arbiter_is_there() || (is_unanswered && state.hurried))
		return false;
	state.hurried = is_unanswered;
	return true;
}

static void want(uint64_t bytes)
{
	if (bytes <= state.want || !may_ask())
		return;
	state.want = bytes;
	say(VCUDA_ARBITER_WANT, bytes, chunk());
}

static void cancel(void)
{
	state.want = 0;
	state.cancelled++;
	say(VCUDA_ARBITER_WANT, 0, 0);
}

/* The worker that waited is gone, or the operator has paused it. */
static void cancel_want(void)
{
	if (state.want && may_ask())
		cancel();
}

static void come_in(void)
{
	state.place = COMING_IN;
	state.began = daemon_now();
	daemon_gate_admit();
}

/* Calls that cannot wait may have taken memory meanwhile. No answer is under way that could have the VM come in. */
static void correct_out(void)
{
	if (daemon_ledger_sum() > state.granted && !state.want && !state.cancelled)
		say_out();
}

/* Without memory the VM is in as soon as the arbiter has nothing more to answer. */
static void update_out(uint64_t needs)
{
	correct_out();
	/* The last return of the memory failed: retry_expired() tries again. */
	if (state.retry.at)
		return;
	if (is_needed() && needs) {
		want(needs);
		return;
	}
	cancel_want();
	if (!is_needed() || state.want || state.cancelled || !daemon_arbiter_is_there())
		return;
	state.granted = 0;
	say(VCUDA_ARBITER_HAVE, 0, 0);
	come_in();
}

/* Memory that another worker has given back may be enough for one that waits. */
static void update_in(uint64_t needs)
{
	if (needs > state.granted) {
		want(needs);
		return;
	}
	cancel_want();
	if (daemon_ledger_wanted())
		daemon_ledger_end_wait(false);
}

static void update(void)
{
	uint64_t needs = daemon_ledger_sum() + daemon_ledger_wanted();

	if (state.place == OUT)
		update_out(needs);
	else if (state.place != GOING_OUT)
		update_in(needs);
}

static uint64_t room(bool now)
{
	uint64_t draft = now ? capacity() / DAEMON_OVERCOMMIT_DRAFT : 0;

	if (state.place == OUT)
		return now ? minus(state.left + draft, daemon_ledger_sum()) : 0;
	return minus(state.granted + draft, daemon_ledger_sum());
}

static const struct daemon_ledger_growth growth = {.room = room, .counts = counts, .want = update, .waits = update};

/* ---- out and in ---- */

static void go_out(void)
{
	state.place = GOING_OUT;
	state.began = daemon_now();
	daemon_gate_evict(DRAIN_MS);
}

/*
 * Memory of a GPU that only descriptors hold cannot be released. The software GPU's memory of several processes stays
 * in the host's memory.
 */
static bool must_stay(void)
{
	if (!daemon_ledger_may_be_on_gpu() || !daemon_ledger_kept())
		return false;
	vcuda_log("the VM keeps the device's memory: descriptors hold what processes that have ended have exported");
	say(VCUDA_ARBITER_STAYS, 0, 0);
	return true;
}

static void be_out(void)
{
	state.place = OUT;
	state.took = daemon_now() - state.began;
	state.left = daemon_ledger_sum();
	say_out();
}

static void end_way_out(void)
{
	if (daemon_gate_has_stayed()) {
		state.place = IN;
		say(VCUDA_ARBITER_STAYS, 0, 0);
	} else if (daemon_gate_is_out()) {
		state.times++;
		be_out();
	}
}

/* A VM whose memory did not come back leaves its part to other VMs. */
static void end_way_in(void)
{
	if (daemon_gate_is_stuck()) {
		/* The answer would have the VM come in too soon. */
		if (state.want)
			cancel();
		daemon_timer_set(state.loop, &state.retry, RETRY_MS);
		go_out();
	} else if (daemon_gate_is_in()) {
		state.place = IN;
		say_in();
	}
}

static void retry_expired(struct daemon_timer *timer)
{
	daemon_gate_retry();
	update();
}

/* The operator has released all memory. */
static void leave(void)
{
	if (!daemon_gate_leave())
		return;
	daemon_timer_clear(&state.retry);
	state.began = daemon_now();
	be_out();
}

/* A gate has another level, or there is another gate. */
static void gates_changed(void)
{
	if (state.place == GOING_OUT)
		end_way_out();
	else if (state.place == COMING_IN)
		end_way_in();
	else if (state.place == IN)
		leave();
	else if (daemon_gate_has_stayed())
		come_in();
	if (state.place == IN && !daemon_gate_is_in() && !state.retry.at)
		daemon_timer_set(state.loop, &state.retry, RETRY_MS);
	update();
}

/* ---- the arbiter ---- */

static void take_grant(const struct vcuda_arbiter_message *m)
{
	state.granted = m->bytes;
	state.surplus = 0;
	if (state.want <= m->bytes)
		state.want = 0;
	if (m->out && state.place == OUT)
		come_in();
	daemon_ledger_end_wait(false);
}

static void take_refusal(const struct vcuda_arbiter_message *m)
{
	if (!m->bytes)
		state.cancelled--;
	if (m->bytes && m->bytes == state.want) {
		/* The worker that wanted so much may have ended, and the next one may want less. */
		bool is_stale = m->bytes > daemon_ledger_sum() + daemon_ledger_wanted();

		state.want = 0;
		daemon_ledger_end_wait(!is_stale);
	}
	/* The VM asks again when it is looked at: a worker may have more than the grant already. */
}

static void take_capacity(const struct vcuda_arbiter_message *m)
{
	if (m->capacity != capacity() && m->capacity != state.options->overcommit)
		vcuda_log("the VMs of this host share %llu MiB of the device's memory, not the %llu MiB of this "
			  "vcudad's --overcommit: the smallest size that a vcudad has counts",
			  (unsigned long long)m->capacity >> 20, (unsigned long long)state.options->overcommit >> 20);
	state.capacity = m->capacity;
	state.wait = m->wait;
}

/* A VM that has been there before goes on, and registers again and again. */
static void take_no_room(const struct vcuda_arbiter_message *m)
{
	if (!state.refused)
		vcuda_log(
			"--min-device-memory: the other VMs of this host leave less than %llu MiB of %llu MiB: give a "
			"smaller size",
			(unsigned long long)state.options->min_device_memory >> 20,
			(unsigned long long)m->capacity >> 20);
	state.refused = true;
	state.loop->stop |= !state.admitted;
}

static bool take(const struct vcuda_arbiter_message *m)
{
	switch (m->type) {
	case VCUDA_ARBITER_NO_ROOM:
		take_no_room(m);
		return true;
	case VCUDA_ARBITER_CAPACITY:
		state.admitted = true;
		state.refused = state.lost = false;
		daemon_timer_clear(&state.missed);
		break;
	case VCUDA_ARBITER_GRANT:
		take_grant(m);
		break;
	case VCUDA_ARBITER_REFUSE:
		take_refusal(m);
		break;
	case VCUDA_ARBITER_GO_OUT:
		/* An arbiter that is new does not know that the VM is on its way in. */
		if (state.place == IN || state.place == COMING_IN) {
			if (must_stay())
				break;
			daemon_timer_clear(&state.retry);
			go_out();
		}
		break;
	default:
		return false;
	}
	take_capacity(m);
	return true;
}

static void fill(struct vcuda_arbiter_message *m)
{
	uint64_t sum = daemon_ledger_sum();

	if (state.place == OUT || state.granted < sum)
		state.granted = sum;
	m->capacity = state.options->overcommit;
	m->minimum = state.options->min_device_memory;
	m->bytes = state.granted;
	m->out = state.place == OUT;
}

static void found(void)
{
	state.want = state.cancelled = 0;
	state.busy = state.hurried = false;
	state.quiet = QUIET_LOOKS;
	update();
}

static void missed_expired(struct daemon_timer *timer)
{
	vcuda_log("there is no arbiter at %s: a VM that needs more of the device's memory waits for one",
		  daemon_arbiter_path());
}

static void lost(void)
{
	if (!state.lost)
		daemon_timer_set(state.loop, &state.missed, MISSED_MS);
	state.lost = true;
}

static const struct daemon_arbiter_user user = {.fill = fill, .found = found, .take = take, .lost = lost};

/* ---- now and then ---- */

static void look_at_work(void)
{
	struct daemon_ledger_work work = {0};
	bool works;

	daemon_ledger_each(add_work, &work);
	works = work.wanted || work.running || work.inside || work.waiting || work.begun != state.begun ||
		work.commands != state.commands;
	state.begun = work.begun;
	state.commands = work.commands;
	state.quiet = works ? 0 : state.quiet + 1;
	if (works && !state.busy)
		say(VCUDA_ARBITER_BUSY, 0, 0);
	else if (state.busy && state.quiet == QUIET_LOOKS)
		say(VCUDA_ARBITER_RESTS, 0, 0);
	state.busy = state.quiet < QUIET_LOOKS;
}

/* A worker that may ask again soon finds what it waited for. */
static void look_at_surplus(void)
{
	uint64_t sum = daemon_ledger_sum(), stays = sum ? sum + chunk() : 0;
	bool is_answered = !state.want && !state.cancelled;
	bool has_surplus = state.place == IN && is_answered && state.granted > stays + (sum ? chunk() : 0);

	state.surplus = has_surplus ? state.surplus + 1 : 0;
	if (state.surplus < SURPLUS_LOOKS)
		return;
	state.surplus = 0;
	state.granted = stays;
	say(VCUDA_ARBITER_HAVE, stays, 0);
}

static void look_expired(struct daemon_timer *timer)
{
	state.hurried = false;
	look_at_work();
	look_at_surplus();
	update();
	daemon_timer_set(state.loop, timer, LOOK_MS);
}

void daemon_overcommit_open(struct daemon_loop *loop, const struct daemon_options *options)
{
	if (!options->overcommit)
		return;
	state.loop = loop;
	state.options = options;
	daemon_timer_init(&state.look, look_expired);
	daemon_timer_init(&state.retry, retry_expired);
	daemon_timer_init(&state.missed, missed_expired);
	daemon_ledger_on_growth(&growth);
	daemon_gate_watch(gates_changed);
	daemon_arbiter_use(&user);
	daemon_timer_set(loop, &state.look, LOOK_MS);
}

void daemon_overcommit_close(void)
{
	if (!state.loop)
		return;
	daemon_timer_clear(&state.look);
	daemon_timer_clear(&state.retry);
	daemon_timer_clear(&state.missed);
}

bool daemon_overcommit_is_refused(void)
{
	return state.refused && !state.admitted;
}

void daemon_overcommit_state(struct daemon_overcommit_state *seen)
{
	static const char *const places[] = {
		[IN] = "in", [GOING_OUT] = "going-out", [OUT] = "out", [COMING_IN] = "coming-in"};

	*seen = (struct daemon_overcommit_state){.place = places[state.place],
						 .granted = state.place == OUT ? 0 : state.granted,
						 .capacity = state.capacity,
						 .wait = state.wait,
						 .times = state.times};
}
