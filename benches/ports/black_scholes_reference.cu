// European options by the Black-Scholes formula, with the error function of the C library.
__global__ void black_scholes(REAL* call, REAL* put, const REAL* price, const REAL* strike,
                              const REAL* years, REAL rate, REAL volatility, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    REAL s = price[i], x = strike[i], t = years[i];
    REAL spread = volatility * sqrt(t);
    REAL d1 = (log(s / x) + (rate + REAL(0.5) * volatility * volatility) * t) / spread;
    REAL d2 = d1 - spread;
    REAL half = REAL(0.70710678118654752440);
    REAL n1 = REAL(0.5) * erfc(-d1 * half), n2 = REAL(0.5) * erfc(-d2 * half);
    REAL m1 = REAL(0.5) * erfc(d1 * half), m2 = REAL(0.5) * erfc(d2 * half);
    REAL discounted = x * exp(-rate * t);
    call[i] = s * n1 - discounted * n2;
    put[i] = discounted * m2 - s * m1;
}
