"""Kernels in Triton; `build.py` beside it compiles them, `cases.py` says what they must compute.

What each is there for: the shapes of code that Triton's users write, not the numbers.
"""

# mypy: ignore-errors
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    tl.store(out + i, tl.load(x + i, mask=inside) + tl.load(y + i, mask=inside), mask=inside)


@triton.jit
def softmax(x, out, columns, stride, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    inside = i < columns
    values = tl.load(x + row * stride + i, mask=inside, other=-float("inf"))
    values = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * stride + i, values / tl.sum(values, axis=0), mask=inside)


@triton.jit
def layer_norm(x, weight, bias, out, mean_out, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * columns + i, mask=i < columns, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / columns
    square = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        value = tl.load(x + row * columns + i, mask=i < columns, other=0.0).to(tl.float32)
        value = tl.where(i < columns, value - mean, 0.0)
        square += value * value
    scale = 1 / tl.sqrt(tl.sum(square, axis=0) / columns + eps)
    tl.store(mean_out + row, mean)
    for start in range(0, columns, BLOCK):
        i = start + tl.arange(0, BLOCK)
        inside = i < columns
        value = tl.load(x + row * columns + i, mask=inside, other=0.0).to(tl.float32)
        w, b = tl.load(weight + i, mask=inside), tl.load(bias + i, mask=inside)
        tl.store(out + row * columns + i, (value - mean) * scale * w + b, mask=inside)


@triton.jit
def matmul(
    a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
    PRECISION: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    in_group = GROUP * columns
    first = (pid // in_group) * GROUP
    size = min(rows - first, GROUP)
    pid_m, pid_n = first + (pid % in_group) % size, (pid % in_group) // size
    im = (pid_m * BM + tl.arange(0, BM)) % M
    jn = (pid_n * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    pa = a + im[:, None] * sam + k[None, :] * sak
    pb = b + k[:, None] * sbk + jn[None, :] * sbn
    acc = tl.zeros((BM, BN), ACC)
    for step in range(tl.cdiv(K, BK)):
        left = tl.load(pa, mask=k[None, :] < K - step * BK, other=0)
        right = tl.load(pb, mask=k[:, None] < K - step * BK, other=0)
        acc = tl.dot(left, right, acc, input_precision=PRECISION, out_dtype=ACC)
        pa += BK * sak
        pb += BK * sbk
    om = pid_m * BM + tl.arange(0, BM)
    on = pid_n * BN + tl.arange(0, BN)
    inside = (om[:, None] < M) & (on[None, :] < N)
    tl.store(c + om[:, None] * scm + on[None, :] * scn, acc.to(c.dtype.element_ty), mask=inside)


@triton.jit
def flash_attention(q, k, v, out, scale, n, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, CAUSAL: tl.constexpr):
    start = tl.program_id(0)
    head = tl.program_id(1) * n * D
    im, jn, d = start * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
    query = tl.load(q + head + im[:, None] * D + d[None, :])
    largest = tl.zeros((BM,), tl.float32) - float("inf")
    total = tl.zeros((BM,), tl.float32) + 1.0
    acc = tl.zeros((BM, D), tl.float32)
    scale *= 1.44269504
    end = (start + 1) * BM if CAUSAL else n
    for first in range(0, end, BN):
        key = tl.load(k + head + (first + jn)[None, :] * D + d[:, None])
        score = tl.dot(query, key) * scale
        if CAUSAL:
            score = tl.where(im[:, None] >= (first + jn)[None, :], score, -1.0e6)
        new = tl.maximum(largest, tl.max(score, 1))
        score = tl.math.exp2(score - new[:, None])
        factor = tl.math.exp2(largest - new)
        acc = acc * factor[:, None]
        value = tl.load(v + head + (first + jn)[:, None] * D + d[None, :])
        acc = tl.dot(score.to(value.dtype), value, acc)
        total = total * factor + tl.sum(score, 1) if first > 0 else tl.sum(score, 1)
        largest = new
    tl.store(out + head + im[:, None] * D + d[None, :], (acc / total[:, None]).to(out.dtype.element_ty))


@triton.jit
def histogram(x, out, n, BINS: tl.constexpr, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + i, mask=i < n, other=0)
    counts = tl.histogram(values, BINS, mask=i < n)
    tl.atomic_add(out + tl.arange(0, BINS), counts)


@triton.jit
def atomics(x, add, largest, bits, swapped, locked, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n, other=0.0)
    tl.atomic_add(add + i % 7, value, mask=i < n)
    tl.atomic_max(largest + i % 5, value, mask=i < n)
    tl.atomic_or(bits + i % 3, 1 << (i % 29), mask=i < n)
    tl.atomic_xchg(swapped + i, i, mask=i < n)
    while tl.atomic_cas(locked, 0, 1) == 1:
        pass
    tl.store(locked + 1, tl.load(locked + 1) + 1)
    tl.debug_barrier()
    tl.atomic_xchg(locked, 0)


@triton.jit
def transpose(x, out, M, N, BM: tl.constexpr, BN: tl.constexpr):
    i = tl.program_id(0) * BM + tl.arange(0, BM)
    j = tl.program_id(1) * BN + tl.arange(0, BN)
    tile = tl.load(x + i[:, None] * N + j[None, :], mask=(i[:, None] < M) & (j[None, :] < N))
    tl.store(out + j[:, None] * M + i[None, :], tl.trans(tile), mask=(j[:, None] < N) & (i[None, :] < M))


@triton.jit
def _larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def scan(x, sums, products, largest, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK
    i = row + tl.arange(0, BLOCK)
    value = tl.load(x + i)
    tl.store(sums + i, tl.cumsum(value, axis=0))
    tl.store(products + i, tl.cumprod(value, axis=0, reverse=True))
    tl.store(largest + i, tl.associative_scan(value, 0, _larger))


@triton.jit
def sort(x, out, top, BLOCK: tl.constexpr, K: tl.constexpr):
    row = tl.program_id(0)
    value = tl.load(x + row * BLOCK + tl.arange(0, BLOCK))
    tl.store(out + row * BLOCK + tl.arange(0, BLOCK), tl.sort(value))
    tl.store(top + row * K + tl.arange(0, K), tl.topk(value, K))


@triton.jit
def reductions(x, out, where, M: tl.constexpr, N: tl.constexpr):
    i, j = tl.arange(0, M), tl.arange(0, N)
    tile = tl.load(x + i[:, None] * N + j[None, :])
    tl.store(out + j, tl.sum(tile, axis=0))
    tl.store(out + N + j, tl.min(tile, axis=0))
    largest, at = tl.max(tile, axis=1, return_indices=True)
    tl.store(out + 2 * N + i, largest)
    tl.store(where + i, at)
    tl.store(where + M + i, tl.argmin(tile, axis=1))
    tl.store(where + 2 * M + i, tl.xor_sum(tile.to(tl.int32), axis=1))


@triton.jit
def conv2d(x, w, out, H, W, C, F, R: tl.constexpr, BF: tl.constexpr, BC: tl.constexpr, BP: tl.constexpr):
    p = tl.program_id(0) * BP + tl.arange(0, BP)
    f = tl.program_id(1) * BF + tl.arange(0, BF)
    oh, ow = H - R + 1, W - R + 1
    y, xx = p // ow, p % ow
    acc = tl.zeros((BP, BF), tl.float32)
    for tap in range(R * R):
        dy, dx = tap // R, tap % R
        for c0 in range(0, C, BC):
            c = c0 + tl.arange(0, BC)
            pixels = tl.load(
                x + ((y + dy)[:, None] * W + (xx + dx)[:, None]) * C + c[None, :],
                mask=(p[:, None] < oh * ow) & (c[None, :] < C), other=0.0,
            )  # fmt: skip
            taps = tl.load(
                w + (tap * C + c[:, None]) * F + f[None, :], mask=(c[:, None] < C) & (f[None, :] < F), other=0.0
            )
            acc = tl.dot(pixels, taps, acc)
    tl.store(out + p[:, None] * F + f[None, :], acc, mask=(p[:, None] < oh * ow) & (f[None, :] < F))


@triton.jit
def random_numbers(seed, words, uniform, normal, kept, p, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(words + i, tl.randint(seed, i))
    tl.store(uniform + i, tl.rand(seed, i))
    tl.store(normal + i, tl.randn(seed, i))
    tl.store(kept + i, tl.rand(seed + 1, i) > p)


@triton.jit
def math(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(out + i, tl.sin(v))
    tl.store(out + n + i, tl.cos(v))
    tl.store(out + 2 * n + i, tl.log(tl.abs(v) + 1))
    tl.store(out + 3 * n + i, tl.erf(v))
    tl.store(out + 4 * n + i, tl.sigmoid(v))
    tl.store(out + 5 * n + i, tl.math.rsqrt(tl.abs(v)))
    tl.store(out + 6 * n + i, libdevice.tanh(v))
    tl.store(out + 7 * n + i, libdevice.pow(tl.abs(v), 1.7))
    tl.store(out + 8 * n + i, tl.floor(v) + tl.ceil(v * 2))
    tl.store(out + 9 * n + i, libdevice.atan2(v, v + 1))
    tl.store(out + 10 * n + i, tl.math.div_rn(v, v * v + 1))
    tl.store(out + 11 * n + i, tl.sqrt_rn(tl.abs(v)))
    tl.store(out + 12 * n + i, libdevice.expm1(v))
    tl.store(out + 13 * n + i, tl.fma(v, v, v))
    tl.store(out + 14 * n + i, libdevice.round(v))
    tl.store(out + 15 * n + i, libdevice.lgamma(v))


@triton.jit
def math64(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(out + i, libdevice.sin(v))
    tl.store(out + n + i, libdevice.log(tl.abs(v)))
    tl.store(out + 2 * n + i, libdevice.sqrt(tl.abs(v)))
    tl.store(out + 3 * n + i, 1 / v)
    tl.store(out + 4 * n + i, libdevice.erf(v))
    tl.store(out + 5 * n + i, libdevice.fmod(v, v * 0 + 0.3))
    tl.store(out + 6 * n + i, libdevice.cbrt(v))
    tl.store(out + 7 * n + i, tl.sum(v, axis=0) + v)
    tl.store(out + 8 * n + i, libdevice.exp(v))


@triton.jit
def integers(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    a, b = tl.load(x + i), tl.load(y + i)
    tl.store(out + i, a // b)
    tl.store(out + n + i, a % b)
    tl.store(out + 2 * n + i, tl.umulhi(a.to(tl.uint32), b.to(tl.uint32)).to(tl.int64))
    tl.store(out + 3 * n + i, (a.to(tl.int64) * b) // (b.to(tl.int64) + (1 << 33)))
    tl.store(out + 4 * n + i, libdevice.popc(a) + libdevice.clz(b) + libdevice.brev(a))
    tl.store(out + 5 * n + i, (a << (b & 15)) ^ (a >> (b & 7)))
    tl.store(out + 6 * n + i, a.to(tl.int8).to(tl.int64) + b.to(tl.uint8) + a.to(tl.int16))
    tl.store(out + 7 * n + i, tl.minimum(a, b) * 3 + tl.abs(b))


@triton.jit
def conversions(x, half, brain, eight, other, whole, back, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(half + i, v.to(tl.float16))
    tl.store(brain + i, v.to(tl.bfloat16))
    tl.store(eight + i, v.to(tl.float8e5))
    tl.store(whole + i, v.to(tl.int64))
    tl.store(back + i, v.to(tl.float8e5).to(tl.float16).to(tl.float32) + v.to(tl.bfloat16).to(tl.float32))
    tl.store(other + i, v.to(tl.int8))


@triton.jit
def conversions_e4m3(x, eight, back, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.store(eight + i, v.to(tl.float8e4nv))
    tl.store(back + i, v.to(tl.float8e4nv).to(tl.float32) * v.to(tl.float8e4nv).to(tl.bfloat16))


@triton.jit(noinline=True)
def _collatz(n):
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


@triton.jit
def control(x, out, n):
    pid = tl.program_id(0)
    if pid >= n:
        return
    value = tl.load(x + pid)
    if value % 3 == 0:
        tl.store(out + pid, -1)
    elif value % 3 == 1:
        tl.store(out + pid, _collatz(value))
    else:
        total = 0
        for i in range(0, value, 2):
            total += _collatz(i)
        tl.store(out + pid, total)


@triton.jit
def gather(table, index, out, joined, M: tl.constexpr, D: tl.constexpr):
    i, d = tl.arange(0, M), tl.arange(0, D)
    rows = tl.load(index + i)
    tile = tl.load(table + rows[:, None] * D + d[None, :])
    tl.store(out + i[:, None] * D + d[None, :], tl.flip(tile, 1))
    even, odd = tl.split(tl.reshape(tile, (M, D // 2, 2)))
    tl.store(joined + i[:, None] * D + d[None, :], tl.interleave(odd, even))
    picked = tl.gather(tile, tl.broadcast_to((d ^ 3)[None, :], (M, D)), 1)
    tl.store(joined + M * D + i[:, None] * D + d[None, :], picked)


@triton.jit
def printing(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    v = tl.load(x + i)
    tl.device_print("v", v)
    tl.device_assert(v > -100, "small")
    tl.store(out + i, v * 2)


@triton.jit
def inline_assembly(x, y, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    a, b = tl.load(x + i), tl.load(y + i)
    (r,) = (
        tl.inline_asm_elementwise("vabsdiff4.u32.u32.u32 $0, $1, $2, $3;", "=r,r,r,r", [a, b, b], tl.int8, True, 4),
    )
    tl.store(out + i, r)


@triton.jit
def matmul_by_descriptor(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """Tiles are loaded and stored by tensor maps that the kernel makes."""
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [BM, BK])
    right = tl.make_tensor_descriptor(b, [K, N], [N, 1], [BK, BN])
    out = tl.make_tensor_descriptor(c, [M, N], [N, 1], [BM, BN])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(left.load([row, k]), right.load([k, column]), total)
    out.store([row, column], total.to(tl.float16))


@triton.jit
def matmul_by_given_descriptor(left, right, out, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    """As above, with the launch's tensor maps."""
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BN
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(left.load([row, k]), right.load([k, column]), total)
    out.store([row, column], total.to(tl.float16))


@triton.jit
def matmul_eight_bits(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    im, jn, k = tl.program_id(0) * BM + tl.arange(0, BM), tl.program_id(1) * BN + tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for first in range(0, K, BK):
        left = tl.load(a + im[:, None] * K + (first + k)[None, :])
        right = tl.load(b + jn[None, :] * K + (first + k)[:, None])
        total = tl.dot(left, right, total)
    tl.store(c + im[:, None] * N + jn[None, :], total)
