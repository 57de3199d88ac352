/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* What the files of this room share: the graph, incidents, and the table of rules. */
#ifndef FT_DIAGNOSE_INTERNAL_H
#define FT_DIAGNOSE_INTERNAL_H

/* Without memory an element is not added: its hh.tbl is NULL, and it counts as unfit. */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "diagnose/diagnose.h"
#include "host/pci.h"

#define PROCS_MAX     65536
#define PLACES_MAX    4096
#define FLOWS_MAX     16384
#define SITES_MAX     1024
#define PAIRS_MAX     4096
#define INCIDENTS_MAX 128
#define DEATHS_MAX    256
#define RESETS_MAX    256
#define COVER_MAX     32
#define PLINKS_MAX    1024

#define WINDOW_NS (60 * NSEC_PER_SEC) /* retransmissions count as loss when this many come in it: */
#define LOSS_SEGS 5		      /* below that a busy network always has some */
#define DROPS_MIN 3
/* After this time the receiver has told which segments it had already, and a look has seen it. */
/* The segments of a storm are told once a second. */
#define AHEAD_NS (2 * NSEC_PER_SEC)
#define LATE_NS	 (FT_LOOK_NS + 100 * NSEC_PER_MSEC)
#define GRACE_NS (2 * NSEC_PER_SEC) /* what ends together ends within this time */
/* A rank that waits for a dead one gives up by then: PyTorch's time-outs are 10 to 30 minutes. */
#define FOLLOW_NS (1800 * NSEC_PER_SEC)
#define JUDGE_NS  NSEC_PER_SEC /* the graph is looked at as a whole this often */

/* --- graph --- */

/*
 * One end of paths: an interface in a namespace of this node, or an address that no traced
 * process has.
 */
struct place {
	UT_hash_handle hh;
	struct place_key {
		uint32_t netns;
		char ifname[16];
		uint8_t ip[16]; /* only of what is not traced here */
	} key;
	bool local;
	bool listed;  /* counted among the interfaces that are watched */
	bool crossed; /* by a socket of a traced process */
	struct ft_attr_nic nic;
	uint8_t nranks;
	bool ranks_cut;
	struct ft_attr_rank ranks[FT_ATTR_MAX];
	uint32_t pid; /* of the first process seen here */
	char task[17];
	uint32_t speed_mbps; /* 0 unknown */
	uint32_t downs;	     /* carrier losses seen */
	uint64_t down_ns, down_last_ns;
	uint64_t up_ns; /* since when the carrier is back, 0: it is not */
	bool down;	/* there is no carrier now */
};

/* Retransmissions of all connections from one place to another, by time. */
struct window {
	UT_hash_handle hh;
	struct pair_key {
		struct place *src, *dst;
	} key;
	uint64_t from_ns, segs, late;
	uint64_t recent_ns, recent[2]; /* of segs: since recent_ns, and in LATE_NS before it */
	uint64_t peak;		       /* most segs in one WINDOW_NS */
	uint64_t lost, lost_before;    /* the same of segs that were not late; before this window */
};

struct site;

/* Packets that one end of a connection sent. */
struct dir {
	uint64_t segs, bytes, syn_segs; /* sent again */
	uint64_t late;			/* of segs: the receiver had them already */
	uint64_t ahead, ahead_ns;	/* told as late, the segments themselves not yet */
	uint64_t first_ns, last_ns;
	uint32_t timeouts, unacked_segs; /* timeouts 0: it does not stand still */
	uint64_t stall_ns;
	struct site_count {
		struct site *site;
		uint64_t packets;
	} drops[4];
};

struct endpoint {
	uint8_t ip[16];
	uint16_t port;
} __attribute__((packed));

struct flow {
	UT_hash_handle hh;
	struct flow_key {
		struct endpoint a, b;
	} key;
	struct fend {
		struct place *place;
		uint32_t pid;
		bool closed;
	} end[2];
	struct dir dir[2];
	bool reset; /* counted already */
};

/* An interface where the kernel dropped packets. */
struct site {
	UT_hash_handle hh;
	struct site_key {
		uint32_t netns;
		char ifname[16];
	} key;
	uint64_t packets, bytes;
	uint64_t in, out; /* by direction, seen from the interface's namespace */
	uint64_t first_ns, last_ns;
	struct place *owner; /* of packets whose connection is not known, but the process is */
	uint64_t owned;
	struct {
		char name[40];
		uint64_t packets;
	} reasons[4];
	char symbol[48];
};

struct addr {
	UT_hash_handle hh;
	uint8_t ip[16];
	struct place *place; /* NULL: more than one has this address */
};

/* A traced process. */
struct dproc {
	UT_hash_handle hh;
	uint32_t pid;
	char task[17];
	bool nccl, helper;
	bool launcher;		  /* of processes with NCCL */
	struct ft_attr_rank rank; /* the first of them */
	uint8_t nranks;
	uint64_t start_ns;	   /* boot time clock, 0 unknown */
	uint64_t seen_ns, exit_ns; /* exit_ns 0: alive */
};

/* All connections between two places, one way. */
struct pair {
	UT_hash_handle hh;
	struct pair_key key;
	uint64_t segs, bytes, syn_segs, late, peak, lost;
	uint64_t first_ns, last_ns;
	uint32_t flows, lossy_flows;
	uint32_t stalled, timeouts, unacked_segs; /* connections that stand still; most; all */
	uint64_t stall_ns;
	struct site_count drops[4];
	bool covered;
};

/* --- PCIe links, and what is below them --- */

/*
 * After a hot plug, a reset or a recovery the link trains and the driver starts: what it does in
 * that time is no fault. A device that comes back within it was reset.
 */
#define SETTLE_NS (5 * NSEC_PER_SEC)
/*
 * A lower speed is a fault when the GPU was at work for all of this time: its state is looked at
 * once a second, the link ten times. The same after the attach, but there nothing changed.
 */
#define SPEED_WAIT_NS	(2500 * NSEC_PER_MSEC)
#define SPEED_ATTACH_NS NSEC_PER_SEC
/*
 * The specification allows one bit error in 10^12: a link that keeps to it repeats a packet now and
 * then. Ten in a minute are more than healthy links show, a hundred leave no doubt. The same for
 * changes of speed or width: a GPU that wakes up makes two.
 */
#define BURST_MIN 10
#define BURST_BIG 100
/*
 * What the kernel log tells from before the attach: named so long; it dates a fault of its own kind
 * where no gap is longer than an hour.
 */
#define TOLD_NS	     (24ull * 3600 * NSEC_PER_SEC)
#define DATES_GAP_NS (3600 * NSEC_PER_SEC)
/* NCCL calls on a GPU: it is at work so long after them. */
#define ACTIVE_NS (3 * NSEC_PER_SEC)
#define LANES_MAX 32

/* Events in WINDOW_NS. */
struct burst {
	uint64_t from_ns, n;
	uint64_t peak, last_ns;
	uint64_t first_ns; /* begin of the first window with BURST_MIN, of the latest before that */
};

#define FT_LOGS 6 /* kinds of lines of the kernel log: log_what in events.def */

/* What was found about a link or its device; the strongest is the incident's kind. */
enum aspect_id { A_GONE, A_XID, A_SLOW, A_ERRORS, A_FLAP, A_LOG, A_MAX };
struct aspect {
	uint8_t confidence; /* 0: nothing */
	uint64_t first_ns, last_ns;
	char text[160], why[120];
};

struct plink {
	UT_hash_handle hh;
	char key[16];			   /* upstream port, or the device where that is not seen */
	const struct ft_attrib_link *info; /* NULL: not in the inventory */
	struct ft_attr attr;		   /* what is below, and who was seen to use it */

	/* speed and width */
	struct ft_pci_link now, possible, better; /* better: what its equals offer */
	uint32_t target_gen;
	uint64_t now_ns; /* since when it is so */
	bool changed;	 /* since the attach */
	bool training;
	uint64_t lbms_ns, labs_ns;
	struct {
		struct ft_pci_link l;
		uint64_t ns;
	} states[8];	       /* time in each that it left, the last one: in all others */
	uint64_t told, looked; /* changes by the kernel's events, by our looks */
	uint64_t transitions, idle_transitions; /* the larger of these; of them, of an idle GPU */
	bool inexact;				/* looks saw more than events */
	/* Changes of speed only, by the second: what NVML says of that time comes after them. */
	struct {
		uint64_t ns, last_ns, n;
	} pending[4];
	struct burst flaps;
	uint64_t width_ns;	/* last change of lanes */
	struct ft_pci_link low; /* the worst state that was a fault */
	bool low_now;
	uint64_t low_end_ns; /* it is over since, 0: it is not */
	unsigned int equals, better_equals;

	/* errors; [0] reported by the port, [1] by the device; by AER's class */
	uint64_t events[2][3], counted[2][3], counted_before[2][3];
	uint64_t told_again[2]; /* what a correctable NonFatalErr was: 7.3 tells both */
	uint64_t log_before[3];
	struct {
		char name[16];
		uint64_t n;
	} errors[16]; /* the last one: all others */
	struct burst correctable;
	uint64_t hard_ns, hard_last_ns; /* first and last that was not corrected */
	bool hard_link;			/* one of them is not what software alone can cause */
	bool hard_before;		/* all of them from before the attach */
	bool contained, unrecovered;

	/* there or not */
	uint64_t gone_ns, back_ns,
		settle_ns; /* 0: it is there, it never was away, nothing to settle */
	uint64_t fell_ns;  /* the driver said that it fell off the bus */
	bool fell_before;
	bool orderly; /* hot plug, not silence */
	uint8_t gone_how;
	unsigned int resets;

	/* GPU */
	uint8_t pstate, utilization;
	uint64_t clocks_ns, busy_ns;	/* busy_ns: since when it is at work, 0: it is not */
	uint64_t idle_ns;		/* when it was idle last, before that */
	uint64_t nccl_ns, nccl_last_ns; /* calls, from and to */
	struct {
		uint32_t xid;
		uint64_t n, first_ns, last_ns;
		bool before;
		char text[100];
	} xids[8];
	struct {
		uint64_t on_ns, first_ns, last_ns, total_ns;
		uint64_t reasons;
		uint32_t mhz_low, temperature, power_mw, power_limit_mw;
		unsigned int times;
	} slowdown;
	struct {
		uint64_t n, first_ns, last_ns, before;
		unsigned int downs;
		uint64_t down; /* bits: links that are */
		uint32_t link;
		char error[40];
	} nvlink;
	struct {
		bool before;
		uint64_t ns;
		char text[140];
	} logs[FT_LOGS]; /* the latest of each kind */
	bool logged;
	/* Trouble of before the attach by the log: the latest without a gap, and what it is of. */
	struct {
		uint64_t first_ns, last_ns;
	} before[A_MAX];

	struct aspect aspects[A_MAX];
};

/* --- incidents --- */

enum rule_id {
	R_GONE,
	R_XID,
	R_DIED,
	R_PCIE_SLOW,
	R_TX_TIMEOUT,
	R_LINK_DOWN,
	R_PCIE_ERRORS,
	R_PCIE_FLAP,
	R_NVLINK,
	R_LINK_SPEED,
	R_LOSS,
	R_SLOWDOWN,
	R_RESET,
	R_DEV_LOG,
	R_NCCL,
	R_MAX
};

/* In what kind of incident a link's strongest aspect results. */
extern const enum rule_id aspect_rule[A_MAX];

struct rule {
	const char *kind;  /* cause.kind */
	const char *title; /* for people */
	int weight;	   /* how much of a job's trouble it explains */
	uint64_t settle_ns;
	const char *watch;    /* kind of the events without which it cannot be excluded */
	const char *or_watch; /* another kind that is enough, or NULL */
	const char *clean; /* what it is called among the excluded causes; NULL: not named there */
	const char *next[2]; /* what to do about it */
};
extern const struct rule rules[R_MAX];

#define LINES_MAX 10
struct lines {
	size_t n;
	char s[LINES_MAX][224];
};
void lines_add(struct lines *l, const char *fmt, ...) __printf(2, 3);

/* What a rule found. The same finding updates its incident. */
struct finding {
	enum rule_id rule;
	uint8_t confidence;
	uint64_t since_ns, last_ns;
	struct place *x, *y; /* place at fault, or both ends of the path; may be NULL */
	struct plink *link;  /* PCIe link, or of the GPU; NULL: another rule */
	bool aside;	     /* nobody who is traced uses it */
	bool mild;	     /* of its rule's kind, but it costs little */
	bool proof;	     /* of a loss: drops were seen, or nothing was acknowledged */
	bool no_wire;	     /* this host's software or lo: no cable can be at fault */
	uint32_t pid;	     /* process at fault, 0 none */
	int32_t code, sig;   /* how it ended; one of them FT_NONE_S32 */
	char object[160];
	char text[224];
	struct lines evidence, next;
	char why[160]; /* the reason of the confidence */
	char cost[120];
	size_t ncover;
	struct {
		struct place *src, *dst;
	} cover[COVER_MAX];
	uint8_t nranks; /* who is hit directly */
	struct ft_attr_rank ranks[FT_ATTR_MAX];
};

struct incident {
	uint32_t id;
	bool open, merged;
	struct finding f;
};

struct death {
	uint32_t pid;
	uint64_t ns;
	int32_t code, sig; /* one of them FT_NONE_S32 */
	struct ft_attr_rank rank;
	char task[17];
	bool judged;
	bool found; /* it is a finding */
	bool early; /* status 0 */
};

struct reset {
	struct place *a, *b;
	uint32_t pid[2];
	uint64_t ns;
	bool done;
};

/* --- what was observed and what not --- */
#define BLIND_MAX 64
enum watch_state { WATCH_UNKNOWN, WATCH_OFF, WATCH_UNNEEDED, WATCH_ON };

struct ft_diag {
	struct ft_diag_opts opts;
	uint64_t now_ns, start_ns, judged_ns;
	uint64_t attached_ns; /* 0 unknown */
	bool dirty;	      /* evidence since the last judgement */

	struct place *places;
	struct flow *flows;
	struct site *sites;
	struct addr *addrs;
	struct window *windows;
	struct dproc *procs;
	uint64_t unfit;

	struct pair *pairs, *pair_hash; /* made anew by each judgement */
	size_t npairs;

	struct incident *incidents;
	size_t nincidents;
	uint32_t incident_id; /* of the latest */
	struct death deaths[DEATHS_MAX];
	size_t ndeaths;
	struct reset resets[RESETS_MAX];
	size_t nresets;
	uint64_t resets_ordinary, netdevs;
	uint64_t segs, drops, drops_ordinary;
	uint64_t drops_other; /* of no connection that is traced */
	bool ordinary_known;  /* the kernel side told what it did not list */
	int32_t world;	      /* size of the job by the environment, -1 unknown */
	int32_t comm_size;    /* the largest communicator's */
	bool numbered;	      /* the number of a rank is known */
	bool died_together;
	char together[96];

	struct plink *plinks;
	bool gpus;				    /* the node has some */
	const struct ft_field *before[FT_KIND_MAX]; /* whether the record is of before the attach */
	bool equals_due; /* the inventory changed: links are compared with their equals */

	uint8_t watch[FT_KIND_MAX]; /* enum watch_state */
	bool polled[FT_KIND_MAX];   /* a poller's row was seen: it alone decides */
	size_t nblind;
	char *blind[BLIND_MAX];
	uint32_t blind_procs[BLIND_MAX]; /* more processes of which the line is true */
	uint64_t blind_more, lost;
	uint64_t lost_of[FT_KIND_MAX];
	uint64_t nodetail;		   /* counted by the kernel side, no more */
	uint64_t deaths_more, resets_more; /* beyond their bounds: not judged */
	uint64_t unattributed;		   /* what attribution had no room for */
	char job[32];
	char target[288]; /* the option that names it: "-p 4000"; "": none that can be given again */
	struct {
		uint64_t ns; /* 0: none has ended */
		int32_t code, sig;
	} end; /* of the traced process that ended last */
};

/* diag_graph.c */
void graph_free(struct ft_diag *d);
struct place *place_of(struct ft_diag *d, const struct ft_attr_nic *nic);
void place_add_ranks(struct place *p, const struct ft_attr *attr);
struct flow *flow_of(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr,
		     bool *src_end);
/* The same, but only one that is known already. */
struct flow *flow_find(struct ft_diag *d, const struct ft_hdr *ev, bool *src_end);
struct site *site_of(struct ft_diag *d, uint32_t netns, const char *ifname);
/* NULL: not known, or not yet. */
struct place *end_known(const struct ft_diag *d, const struct flow *f, int end);
struct place *end_place(struct ft_diag *d, struct flow *f, int end);
void addr_learn(struct ft_diag *d, const uint8_t ip[16], struct place *p);
struct dproc *dproc_find(const struct ft_diag *d, uint32_t pid);
/* Of unknown number: it has NCCL, and no process of the session has a number. */
bool dproc_is_rank(const struct ft_diag *d, const struct dproc *p);
void dproc_event(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr);
void window_add(struct ft_diag *d, struct flow *f, int src, uint64_t segs, uint64_t ts_ns);
void window_late(struct ft_diag *d, struct flow *f, int src, uint64_t segs);
/* true: what was sent again last may turn out to be late, or a connection stands still. */
bool pairs_make(struct ft_diag *d, bool final);
bool place_touches(const struct pair *p, const struct place *x);

/* diag_name.c: words for people */
int rank_number(const struct ft_attr_rank *r);
void ranks_name(struct ft_buf *b, const struct ft_attr_rank *ranks, size_t n, bool more);
/* "eth0 of rank 2 (netns 4026532201)"; short: "rank 2". */
void place_name(const struct place *p, char *out, size_t size);
void place_short(const struct place *p, char *out, size_t size);
void ip_name(const uint8_t ip[16], char out[48]);
const char *signal_hint(int sig);
const char *reason_hint(const char *reason);
/* It is dropped by the host's own rules and queues, not by a cable or a switch. */
bool reason_is_software(const char *reason);
/* "exit status 7", "killed by signal 9 (Killed)" */
void how_ended(int32_t code, int32_t sig, char *out, size_t size);
/*
 * "nsenter -t 4003 -n ", what a command for the namespace begins with; "": no process is known in
 * it that still runs.
 */
void netns_enter(const struct ft_diag *d, uint32_t netns, char *out, size_t size);
/* "04:12:03", local time */
void time_name(const struct ft_diag *d, uint64_t ns, char *out, size_t size);

/* diag_loss.c, diag_rules.c */
/* Whether it must be judged again though no event comes. */
bool loss_judge(struct ft_diag *d, bool final);
void loss_retransmit(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr);
void loss_late(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr);
void loss_stall(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr);
void loss_drop(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr);
void deaths_judge(struct ft_diag *d, bool final);
void resets_judge(struct ft_diag *d, bool final);
void rule_link(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr);
void rule_tx_timeout(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr);
void rule_exit(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr);
void rule_reset(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr);
void rule_nccl(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr);

/* diag_pcie.c: what is seen; diag_pcie_judge.c: what it means; diag_pcie_words.c */
void pcie_inventory(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr);
void pcie_aer(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr);
void pcie_counter(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr);
void pcie_link(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr);
void pcie_hotplug(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr);
void pcie_recovery(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr);
void pcie_gone(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr);
void gpu_xid(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr);
void gpu_clocks(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr);
void gpu_nvlink(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr);
void gpu_active(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr);
void dev_log(struct ft_diag *d, const struct ft_hdr *ev, const struct ft_attr *attr);
/* diag_gpu.c */
void gpu_slowdown_finding(struct ft_diag *d, struct plink *pl);
void gpu_nvlink_finding(struct ft_diag *d, struct plink *pl);
/* The link that the event is of; what attribution does not know goes by its own address. */
struct plink *plink_of(struct ft_diag *d, const struct ft_attr *attr, const char bdf[16]);
/* The kernel log has trouble of it, of before the attach. */
void plink_before_note(struct plink *pl, enum aspect_id id, uint64_t ns);
/* All but what it says. */
void plink_finding(struct finding *f, struct plink *pl, enum rule_id rule);
struct plink *plink_by_bdf(const struct ft_diag *d, const char *bdf);
/* 1 at work, 0 idle, -1 not known; *since_ns: since when at work. */
int plink_busy(const struct ft_diag *d, const struct plink *pl, uint64_t *since_ns);
/* What was idle's and what was not, of the changes that have waited for it. */
void plink_settle(const struct ft_diag *d, struct plink *pl, bool final);
uint64_t plink_errors(const struct plink *pl, int end, int cls); /* by events or by counters */
void pcie_judge(struct ft_diag *d, bool final);
void pcie_judge_link(struct ft_diag *d, struct plink *pl, bool final);
bool pcie_is_degraded(const struct plink *pl);
/* Its GPU or NIC is all there is below: no switch. */
bool plink_is_direct(const struct plink *pl);
/* "PCIe link of GPU 3 = rank 11, slot 5 (0000:40:01.0 -> 41:00.0)"; device: without "PCIe link of" */
void plink_name(const struct plink *pl, bool device, char *out, size_t size);
void plink_ends(const struct plink *pl, char out[40]);
/* The evidence of an aspect, as lines. */
void plink_evidence(struct ft_diag *d, struct plink *pl, enum aspect_id id, struct lines *l);
/* Since when it is so, also by the log of before the attach. */
uint64_t plink_since(const struct plink *pl, enum aspect_id id);
/* The first trouble that the log has of before the attach; 0: none of late. */
uint64_t plink_before_ns(const struct ft_diag *d, const struct plink *pl);
void plink_before(const struct ft_diag *d, const struct plink *pl, struct lines *l);
void plink_state(const struct ft_diag *d, const struct finding *f, char *out, size_t size);
/* diag_pcie_verdict.c: what the verdict says of links where they are not at fault, and of users */
void pcie_clean(const struct ft_diag *d, bool errors_watched, char *out, size_t size);
void pcie_clean_errors(const struct ft_diag *d, char *out, size_t size);
void pcie_blind(const struct ft_diag *d, struct lines *l);
void pcie_users(const struct ft_diag *d, const struct finding *f, char *out, size_t size);
bool pcie_found(const struct ft_diag *d, enum rule_id rule);
/* Links of the inventory; of these with speed and width known, now and at best; with AER handled. */
unsigned int plinks_all(const struct ft_diag *d);
unsigned int plinks_known(const struct ft_diag *d);
unsigned int plinks_aer(const struct ft_diag *d);
/* "63.0 -> 7.9 GB/s" */
void gbytes_name(struct ft_pci_link from, struct ft_pci_link to, char out[40]);

/* diag_explain.c */
/* An interface or device of which nothing says that the job uses it. */
bool finding_is_aside(const struct finding *f);
/* NULL: nothing does. */
const struct finding *incident_explained_by(const struct ft_diag *d, const struct incident *in);
/* The cause, NULL: none. */
const struct incident *incident_primary(const struct ft_diag *d);

/* diag.c */
void finding_submit(struct ft_diag *d, const struct finding *f);
/* It is over; none: what shows that it never was a fault, or NULL. */
void finding_close(struct ft_diag *d, enum rule_id rule, uint32_t pid, const char *none);
void incident_withdraw(struct ft_diag *d, struct incident *in, const char *none);
int finding_weight(const struct finding *f);
enum ft_severity finding_severity(const struct finding *f);
void finding_ranks(struct finding *f, const struct ft_attr_rank *ranks, size_t n);
void diag_judge(struct ft_diag *d, bool final);
void incident_attr(const struct ft_diag *d, const struct finding *f, struct ft_attr *attr);

#endif
