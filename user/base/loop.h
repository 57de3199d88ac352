/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* The main loop: file descriptors and periodic ticks, one thread. */
#ifndef FT_BASE_LOOP_H
#define FT_BASE_LOOP_H

#include "base/base.h"

struct ft_loop;
typedef void (*ft_loop_fn)(void *ctx);

int ft_loop_new(struct ft_loop **out);
void ft_loop_free(struct ft_loop *l);
/* Calls fn when fd is readable (or hung up). The fd stays the caller's. */
int ft_loop_add(struct ft_loop *l, int fd, ft_loop_fn fn, void *ctx);
void ft_loop_del(struct ft_loop *l, int fd);
/* Calls fn every period_ms, never late calls in a row. */
int ft_loop_every(struct ft_loop *l, unsigned int period_ms, ft_loop_fn fn, void *ctx);
/* A timer that is off until it is set; returns its handle or negative errno. */
int ft_loop_timer(struct ft_loop *l, ft_loop_fn fn, void *ctx);
/* Calls the timer's fn once at that CLOCK_MONOTONIC time. */
int ft_loop_timer_set(int timer, uint64_t mono_ns);
/* Runs until ft_loop_stop(). */
int ft_loop_run(struct ft_loop *l);
void ft_loop_stop(struct ft_loop *l);

#endif
