/* SPDX-License-Identifier: (BSD-2-Clause OR GPL-2.0-only) */
/* Element-wise reductions. Signed sums go through the unsigned type: they may wrap. */
#include <string.h>

#include "comm.h"

/* dst is a or b, or neither: never shifted against them, so vectors are safe. */
#ifdef __clang__
#define VECTOR _Pragma("clang loop vectorize(assume_safety)")
#else
#define VECTOR _Pragma("GCC ivdep")
#endif

static inline float bits_float(uint32_t bits)
{
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static inline uint32_t float_bits(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	return bits;
}

/* By hand since not every compiler of the distributions knows _Float16. */
static inline float f16_load(uint16_t h)
{
	uint32_t sign = (h & 0x8000u) << 16, exp = (h >> 10) & 31, man = h & 0x3ff;

	if (!exp)
		return bits_float(sign | float_bits((float)man * 0x1p-24f));
	return bits_float(sign | (exp == 31 ? 0x7f800000u : (exp + 112) << 23) | man << 13);
}

static inline uint16_t f16_store(float f)
{
	uint32_t x = float_bits(f), sign = x >> 16 & 0x8000;

	x &= 0x7fffffff;
	if (x >= 0x47800000)
		return sign | (x > 0x7f800000 ? 0x7e00 : 0x7c00);
	/* Subnormal: adding 0.5 leaves the rounded mantissa in the low bits. */
	if (x < 0x38800000)
		return sign | (float_bits(bits_float(x) + 0.5f) - 0x3f000000);
	return sign | (x + 0xc8000fff + (x >> 13 & 1)) >> 13;
}

static inline float bf16_load(uint16_t h)
{
	return bits_float((uint32_t)h << 16);
}

static inline uint16_t bf16_store(float f)
{
	uint32_t x = float_bits(f);

	if ((x & 0x7fffffff) > 0x7f800000)
		return x >> 16 | 0x40;
	return (x + 0x7fff + (x >> 16 & 1)) >> 16;
}

#define PLAIN(x) (x)

#define KERNEL(name, T, V, LOAD, STORE, expr)						\
	static void name(void *dst, const void *a, const void *b, size_t n)		\
	{										\
		const T *pa = a, *pb = b;						\
		T *pd = dst;								\
											\
		VECTOR									\
		for (size_t i = 0; i < n; i++) {					\
			V x = (V)LOAD(pa[i]), y = (V)LOAD(pb[i]);			\
			pd[i] = (T)STORE(expr);						\
		}									\
	}

/* T: the element. A: what sums and products are made in. C: what is compared. */
#define KERNELS(id, T, A, C, LOAD, STORE)						\
	KERNEL(id##_sum, T, A, LOAD, STORE, x + y)					\
	KERNEL(id##_prod, T, A, LOAD, STORE, x * y)					\
	KERNEL(id##_max, T, C, LOAD, STORE, x > y ? x : y)				\
	KERNEL(id##_min, T, C, LOAD, STORE, x < y ? x : y)				\
	static void id##_div(void *dst, size_t n, int by)				\
	{										\
		T *pd = dst;								\
											\
		for (size_t i = 0; i < n; i++)						\
			pd[i] = (T)STORE((C)LOAD(pd[i]) / (C)by);			\
	}

KERNELS(i8, int8_t, uint32_t, int32_t, PLAIN, PLAIN)
KERNELS(u8, uint8_t, uint32_t, uint32_t, PLAIN, PLAIN)
KERNELS(i32, int32_t, uint32_t, int32_t, PLAIN, PLAIN)
KERNELS(u32, uint32_t, uint32_t, uint32_t, PLAIN, PLAIN)
KERNELS(i64, int64_t, uint64_t, int64_t, PLAIN, PLAIN)
KERNELS(u64, uint64_t, uint64_t, uint64_t, PLAIN, PLAIN)
KERNELS(f16, uint16_t, float, float, f16_load, f16_store)
KERNELS(f32, float, float, float, PLAIN, PLAIN)
KERNELS(f64, double, double, double, PLAIN, PLAIN)
KERNELS(bf16, uint16_t, float, float, bf16_load, bf16_store)

#define ROW(id, bytes)									\
	{ #id, bytes, { id##_sum, id##_prod, id##_max, id##_min }, id##_div }

const struct dtype dtypes[ncclNumTypes] = {
	[ncclInt8] = ROW(i8, 1),	[ncclUint8] = ROW(u8, 1),
	[ncclInt32] = ROW(i32, 4),	[ncclUint32] = ROW(u32, 4),
	[ncclInt64] = ROW(i64, 8),	[ncclUint64] = ROW(u64, 8),
	[ncclFloat16] = ROW(f16, 2),	[ncclFloat32] = ROW(f32, 4),
	[ncclFloat64] = ROW(f64, 8),	[ncclBfloat16] = ROW(bf16, 2),
	[ncclFloat8e4m3] = { "e4m3", 1, { NULL }, NULL },
	[ncclFloat8e5m2] = { "e5m2", 1, { NULL }, NULL },
};

/* An average is a sum that is divided once, where it is complete. */
fold_fn fold_get(ncclDataType_t dtype, ncclRedOp_t op)
{
	return dtypes[dtype].fold[op == ncclAvg ? ncclSum : op];
}
