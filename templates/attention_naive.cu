// Attention row by row, for spaces whose layouts or outputs the built-in reference does not have: each thread has a row of
// the output, and computes its scores twice.

// Distances between neighbors, in elements.
struct Strides {
    int batch, head, row;
};

template <int HEAD_DIM>
static __device__ void attend(const REAL* q, const REAL* k, const REAL* v, REAL* o, REAL* lse, int row, int heads_q,
                              int heads_kv, int length_q, int length_kv, int causal, Strides of_q, Strides of_kv,
                              REAL factor) {
    const int query = row % length_q;
    const int head = row / length_q % heads_q;
    const int batch = row / length_q / heads_q;
    const size_t place = static_cast<size_t>(batch) * of_q.batch + static_cast<size_t>(head) * of_q.head +
                         static_cast<size_t>(query) * of_q.row;
    const size_t start = static_cast<size_t>(batch) * of_kv.batch +
                         static_cast<size_t>(head / (heads_q / heads_kv)) * of_kv.head;
    // Bottom-right alignment: the last query sees all keys.
    const int keys = causal ? min(length_kv, query + 1 + length_kv - length_q) : length_kv;
    const auto score = [&](int key) {
        REAL total = 0;
        for (int d = 0; d < HEAD_DIM; ++d) {
            total += q[place + d] * k[start + static_cast<size_t>(key) * of_kv.row + d];
        }
        return total;
    };
    REAL top = 0;
    for (int key = 0; key < keys; ++key) {
        const REAL own = score(key);
        top = key == 0 || own > top ? own : top;
    }
    REAL sum = 0;
    REAL output[HEAD_DIM] = {};
    for (int key = 0; key < keys; ++key) {
        const REAL weight = exp2((score(key) - top) * factor);
        sum += weight;
        for (int d = 0; d < HEAD_DIM; ++d) {
            output[d] += weight * v[start + static_cast<size_t>(key) * of_kv.row + d];
        }
    }
    for (int d = 0; d < HEAD_DIM; ++d) {
        o[place + d] = keys > 0 ? output[d] / sum : REAL(0);
    }
    // Natural logarithm; a row without keys has -infinity.
    lse[row] = keys > 0 ? REAL(0.6931471805599453) * top * factor + log(sum) : -REAL(1) / REAL(0);
}

// grid: rows of all heads, 32 in a block.
extern "C" __global__ void attention_naive(const REAL* q, const REAL* k, const REAL* v, REAL* o, REAL* lse, int heads,
                                           int heads_q, int heads_kv, int length_q, int length_kv, int causal,
                                           int q_batch, int q_head, int q_row, int kv_batch, int kv_head, int kv_row,
                                           REAL factor) {
    const int row = blockIdx.x * 32 + threadIdx.x;
    if (row < heads * length_q) {
        attend<64>(q, k, v, o, lse, row, heads_q, heads_kv, length_q, length_kv, causal, Strides{q_batch, q_head, q_row},
                   Strides{kv_batch, kv_head, kv_row}, factor);
    }
}

// The same with the arguments of `attention_decode`, of which it needs no scratch. grid: rows of all heads; one thread.
extern "C" __global__ void attention_decode_naive(const REAL* q, const REAL* k, const REAL* v, REAL* o, REAL* lse,
                                                  REAL*, REAL*, unsigned*, int heads_kv, int group, int length_q,
                                                  int length_kv, int causal, int, int q_batch, int q_head, int q_row,
                                                  int kv_batch, int kv_head, int kv_row, REAL factor) {
    attend<64>(q, k, v, o, lse, blockIdx.x, heads_kv * group, heads_kv, length_q, length_kv, causal,
               Strides{q_batch, q_head, q_row}, Strides{kv_batch, kv_head, kv_row}, factor);
}
