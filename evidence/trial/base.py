"""Tasks of the trial, and how a kernel is judged: `evo test-one` in a folder of its own."""
import json, os, subprocess, sys, time, tempfile, pathlib
EVO = os.environ.get("EVO", "evo")
def buf(n, d, shape, role, extra=""):
    return f'[[arguments]]\nname = "{n}"\ndtype = "{d}"\nshape = [{shape}]\nrole = "{role}"\n{extra}\n'
def sc(n, d, v): return f'[[arguments]]\nname = "{n}"\ndtype = "{d}"\nvalue = "{v}"\n'
TASKS = {}
def task(name, args, entry, grid, block, problems, ref=None, naive="", check="", launches=None, options=""):
    TASKS[name] = dict(args=args, entry=entry, grid=grid, block=block, problems=problems, ref=ref, naive=naive, check=check, launches=launches, options=options)
def space(t, extra_check="", shared=0, coop=False, launches=None):
    t = TASKS[t]
    L = launches or t["launches"] or f'[[launches]]\nentry = "{t["entry"]}"\ngrid = {t["grid"]}\nblock = {t["block"]}\nshared_bytes = "{shared}"\ncooperative = {"true" if coop else "false"}\n'
    probs = "".join(f'[[problems]]\nname = "p{i}"\nsizes = {{ {p} }}\n' for i, p in enumerate(t["problems"]))
    return f'''[kernel]
name = "k"
source = "k.cu"
{t["options"]}
[parameters]
BLK = [128]
{t["args"]}
{L}
{probs}
[check]
reference = {t["ref"]}
{t["check"]}
{extra_check}
'''
REAL = "#ifndef REAL\n#define REAL float\n#endif\n"
AT = "blockIdx.x * 64 + threadIdx.x"
def naive(entry, grid): return f'{{ source = "naive.cu", entry = "{entry}", grid = "{grid}", block = 64 }}'

MAPARGS = buf("x","f32",'"N"',"input")+buf("y","f32",'"N"',"output")+buf("w","f32",'4096',"scratch")+sc("n","i32","N")
task("map", MAPARGS, "k", '"ceil_div(N, BLK)"', '"BLK"', ["N = 100003"], naive("r","ceil_div(N, 64)"),
  REAL+f'extern "C" __global__ void r(const REAL* x, REAL* y, REAL* w, int n) {{ int i = {AT}; if (i < n) y[i] = 2 * x[i] + 1; }}')
task("mapnr", MAPARGS, "k", '"ceil_div(N, BLK)"', '"BLK"', ["N = 100003"], naive("r","ceil_div(N, 64)"),
  f'extern "C" __global__ void r(const float* x, float* y, float* w, int n) {{ int i = {AT}; if (i < n) y[i] = 2 * x[i] + 1; }}')
task("copy", MAPARGS, "k", '"ceil_div(N, BLK)"', '"BLK"', ["N = 100003"], naive("r","ceil_div(N, 64)"),
  REAL+f'extern "C" __global__ void r(const REAL* x, REAL* y, REAL* w, int n) {{ int i = {AT}; if (i < n) y[i] = x[i]; }}')
task("relu", MAPARGS, "k", '"ceil_div(N, BLK)"', '"BLK"', ["N = 100003"], naive("r","ceil_div(N, 64)"),
  REAL+f'extern "C" __global__ void r(const REAL* x, REAL* y, REAL* w, int n) {{ int i = {AT}; if (i < n) y[i] = x[i] < 0 ? 0 : x[i]; }}')
ROWARGS = buf("x","f32",'"M","N"',"input")+buf("y","f32",'"M"',"output")+sc("m","i32","M")+sc("n","i32","N")
task("sum", ROWARGS, "k", '"M"', '"BLK"', ["M = 60, N = 1000"], naive("r","ceil_div(M, 64)"),
  REAL+f'extern "C" __global__ void r(const REAL* x, REAL* y, int m, int n) {{ int i = {AT}; if (i < m) {{ REAL s = 0; for (int k = 0; k < n; k++) s += x[(long long)i * n + k]; y[i] = s; }} }}')
task("max", ROWARGS, "k", '"M"', '"BLK"', ["M = 60, N = 1000"], naive("r","ceil_div(M, 64)"),
  REAL+f'extern "C" __global__ void r(const REAL* x, REAL* y, int m, int n) {{ int i = {AT}; if (i < m) {{ REAL s = x[(long long)i*n]; for (int k = 1; k < n; k++) {{ REAL v = x[(long long)i * n + k]; s = v > s ? v : s; }} y[i] = s; }} }}', check='special_values = "ignore"')
task("softmax", buf("x","f32",'"M","N"',"input")+buf("y","f32",'"M","N"',"output")+sc("m","i32","M")+sc("n","i32","N"), "k", '"M"', '"BLK"', ["M = 60, N = 500"], '"softmax"')
task("rms", buf("x","f32",'"M","N"',"input")+buf("w","f32",'"N"',"input")+buf("y","f32",'"M","N"',"output")+sc("m","i32","M")+sc("n","i32","N"), "k", '"M"', '"BLK"', ["M = 60, N = 500"], '"rmsnorm"')
def gemmargs(a, c): return buf("a",a,'"M","K"',"input")+buf("b",a,'"K","N"',"input")+buf("c",c,'"M","N"',"output")+sc("m","i32","M")+sc("n","i32","N")+sc("k","i32","K")
GG = '["ceil_div(N, 16)", "ceil_div(M, 16)"]'
task("gemm", gemmargs("f32","f32"), "k", GG, '[16, 16]', ["M = 96, N = 80, K = 112"], '"gemm"')
task("gemmh", gemmargs("f16","f16"), "k", GG, '[16, 16]', ["M = 96, N = 80, K = 112"], '"gemm"')
GREF = lambda a, c, acc: f'extern "C" __global__ void r(const {a}* a, const {a}* b, {c}* c, int m, int n, int k) {{ int i = {AT}; if (i < m * n) {{ {acc} s = 0; for (int l = 0; l < k; l++) s += ({acc})a[i / n * k + l] * ({acc})b[l * n + i % n]; c[i] = s; }} }}'
task("gemmi", gemmargs("i32","i32"), "k", GG, '[16, 16]', ["M = 96, N = 80, K = 112"], naive("r","ceil_div(M * N, 64)"), GREF("int","int","unsigned"))
task("gemm8", gemmargs("i8","i32"), "k", GG, '[16, 16]', ["M = 96, N = 80, K = 112"], naive("r","ceil_div(M * N, 64)"), GREF("signed char","int","int"))
task("gemmnr", gemmargs("f32","f32"), "k", GG, '[16, 16]', ["M = 96, N = 80, K = 112"], naive("r","ceil_div(M * N, 64)"), GREF("float","float","float"))
task("tr", buf("x","f32",'"M","N"',"input")+buf("y","f32",'"N","M"',"output")+sc("m","i32","M")+sc("n","i32","N"), "k", GG, '[16, 16]', ["M = 300, N = 200"], '"transpose"')
SCAN = lambda d: buf("x",d,'"N"',"input")+buf("y",d,'"N"',"output")+buf("w",d,'"3 * ceil_div(N, BLK) + 8"',"scratch")+sc("n","i32","N")
def scanlaunch(init=True): return '[[launches]]\nentry = "init"\ngrid = "ceil_div(3 * ceil_div(N, BLK) + 8, 128)"\nblock = 128\n[[launches]]\nentry = "k"\ngrid = "ceil_div(N, BLK)"\nblock = "BLK"\n'
task("scan", SCAN("i32"), "k", '"ceil_div(N, BLK)"','"BLK"', ["N = 20011"], naive("r","1"),
  f'extern "C" __global__ void r(const int* x, int* y, int* w, int n) {{ if (threadIdx.x == 0) {{ unsigned s = 0; for (int i = 0; i < n; i++) {{ s += x[i]; y[i] = s; }} }} }}', launches=scanlaunch())
task("hist", buf("x","i32",'"N"',"input", 'fill = { uniform = [0, 64] }')+buf("y","i32",'64',"output")+sc("n","i32","N"), "k", '"ceil_div(N, BLK)"','"BLK"', ["N = 20011"], naive("r","1"),
  f'extern "C" __global__ void r(const int* x, int* y, int n) {{ int t = threadIdx.x; int s = 0; for (int i = 0; i < n; i++) s += x[i] == t; y[t] = s; }}',
  launches='[[launches]]\nentry = "init"\ngrid = 1\nblock = 64\n[[launches]]\nentry = "k"\ngrid = "ceil_div(N, BLK)"\nblock = "BLK"\n')
B64 = lambda d: buf("a",d,'"N"',"input")+buf("b",d,'"N"',"input")+buf("y",d,'"N"',"output")+sc("n","i32","N")
def bin(name, d, ct, expr): task(name, B64(d), "k", '"ceil_div(N, BLK)"','"BLK"', ["N = 50021"], naive("r","ceil_div(N, 64)"),
  f'extern "C" __global__ void r(const {ct}* a, const {ct}* b, {ct}* y, int n) {{ int i = {AT}; if (i < n) y[i] = {expr}; }}')
bin("add64","i64","long long","(long long)((unsigned long long)a[i] + (unsigned long long)b[i])")
bin("min64","i64","long long","a[i] < b[i] ? a[i] : b[i]")
bin("mul64","u64","unsigned long long","a[i] * b[i]")
bin("eq64","u64","unsigned long long","a[i] == b[i]")
bin("div32","u32","unsigned","b[i] ? a[i] / b[i] : 0")
bin("mod32","i32","int","b[i] > 0 ? a[i] % b[i] : 0")
bin("gcdish","u32","unsigned","a[i] % 7 + b[i] % 1000")
bin("abs32","i32","int","(int)((a[i] < 0 ? 0u - (unsigned)a[i] : (unsigned)a[i]) ^ (unsigned)b[i])")
bin("avg8","u8","unsigned char","(unsigned char)((a[i] + b[i] + 1) / 2)")
task("f64", buf("x","f64",'"N"',"input")+buf("y","f64",'"N"',"output")+sc("n","i32","N"), "k", '"ceil_div(N, BLK)"','"BLK"', ["N = 50021"], naive("r","ceil_div(N, 64)"),
  f'extern "C" __global__ void r(const double* x, double* y, int n) {{ int i = {AT}; if (i < n) y[i] = 1.0 / sqrt(1.0 + x[i] * x[i]); }}')
task("f64sum", buf("x","f64",'"M","N"',"input")+buf("y","f64",'"M"',"output")+sc("m","i32","M")+sc("n","i32","N"), "k", '"M"', '"BLK"', ["M = 60, N = 1000"], naive("r","ceil_div(M, 64)"),
  f'extern "C" __global__ void r(const double* x, double* y, int m, int n) {{ int i = {AT}; if (i < m) {{ double s = 0; for (int k = 0; k < n; k++) s += x[(long long)i * n + k]; y[i] = s; }} }}')
task("axpy", buf("x","f32",'"N"',"input")+buf("y","f32",'"N"',"inout")+sc("a","f32","0.5")+sc("n","i32","N"), "k", '"ceil_div(N, BLK)"','"BLK"', ["N = 50021"], naive("r","ceil_div(N, 64)"),
  REAL+f'extern "C" __global__ void r(const REAL* x, REAL* y, REAL a, int n) {{ int i = {AT}; if (i < n) y[i] = a * x[i] + y[i]; }}')
task("unpack", buf("q","u32",'"N"',"input")+buf("s","f32",'"N"',"input", "fill = { uniform = [0.5, 2.0] }")+buf("y","f32",'"N", 8',"output")+sc("n","i32","N"), "k", '"ceil_div(N, BLK)"','"BLK"', ["N = 8009"], naive("r","ceil_div(N, 64)"),
  REAL+f'extern "C" __global__ void r(const unsigned* q, const REAL* s, REAL* y, int n) {{ int i = {AT}; if (i < n) for (int j = 0; j < 8; j++) y[i * 8 + j] = ((REAL)(int)(q[i] >> 4 * j & 15) - 8) * s[i]; }}')
task("argmax", buf("x","f32",'"M","N"',"input")+buf("y","i32",'"M"',"output")+sc("m","i32","M")+sc("n","i32","N"), "k", '"M"', '"BLK"', ["M = 60, N = 1000"], naive("r","ceil_div(M, 64)"),
  REAL+f'extern "C" __global__ void r(const REAL* x, int* y, int m, int n) {{ int i = {AT}; if (i < m) {{ int s = 0; for (int k = 1; k < n; k++) if (x[(long long)i * n + k] > x[(long long)i * n + s]) s = k; y[i] = s; }} }}', check='special_values = "ignore"')
task("sten", buf("x","f32",'"N"',"input")+buf("y","f32",'"N"',"output")+sc("n","i32","N"), "k", '"ceil_div(N, BLK)"','"BLK"', ["N = 50021"], naive("r","ceil_div(N, 64)"),
  REAL+f'extern "C" __global__ void r(const REAL* x, REAL* y, int n) {{ int i = {AT}; if (i < n) y[i] = (REAL)0.25 * (i > 0 ? x[i-1] : 0) + (REAL)0.5 * x[i] + (REAL)0.25 * (i + 1 < n ? x[i+1] : 0); }}')
task("gather", buf("x","f32",'"N"',"input")+buf("id","i32",'"N"',"input",'fill = { uniform = [0, "N"] }')+buf("y","f32",'"N"',"output")+sc("n","i32","N"), "k", '"ceil_div(N, BLK)"','"BLK"', ["N = 50021"], naive("r","ceil_div(N, 64)"),
  REAL+f'extern "C" __global__ void r(const REAL* x, const int* id, REAL* y, int n) {{ int i = {AT}; if (i < n) y[i] = x[id[i]]; }}')
task("expf16", buf("x","f16",'"N"',"input")+buf("y","f16",'"N"',"output")+sc("n","i32","N"), "k", '"ceil_div(N, BLK)"','"BLK"', ["N = 50021"], naive("r","ceil_div(N, 64)"),
  '#include <cuda_fp16.h>\n'+f'extern "C" __global__ void r(const __half* x, __half* y, int n) {{ int i = {AT}; if (i < n) y[i] = __float2half(3.0f * __half2float(x[i]) + 0.5f); }}')
task("dot", buf("x","f32",'"N"',"input")+buf("z","f32",'"N"',"input")+buf("y","f32",'1',"output")+buf("w","f32",'"ceil_div(N, BLK)+2"',"scratch")+sc("n","i32","N"), "k", '"ceil_div(N, BLK)"','"BLK"', ["N = 50021"], naive("r","1"),
  REAL+'extern "C" __global__ void r(const REAL* x, const REAL* z, REAL* y, REAL* w, int n) { if (threadIdx.x == 0) { REAL s = 0; for (int i = 0; i < n; i++) s += x[i] * z[i]; y[0] = s; } }',
  launches='[[launches]]\nentry = "init"\ngrid = 1\nblock = 1\n[[launches]]\nentry = "k"\ngrid = "ceil_div(N, BLK)"\nblock = "BLK"\n')

def run(case):
    name, t, cls, src, kw = case
    want = kw.get("want", "refuse")
    d = pathlib.Path(tempfile.mkdtemp(prefix=f"tr_{name}_"))
    (d/"k.toml").write_text(space(t, kw.get("check",""), kw.get("shared",0), kw.get("coop",False), kw.get("launches")))
    (d/"k.cu").write_text(src)
    if TASKS[t]["naive"]: (d/"naive.cu").write_text(TASKS[t]["naive"])
    begin = time.time()
    seed = os.environ.get("SEED")
    cmd = [EVO, "test-one", "k.toml", "--device", os.environ.get("DEVICE","host"), "--json", "--limit-compile", "400s", "--limit-sampling", os.environ.get("SAMPLING","100ms")] + (["--seed", seed] if seed else [])
    try:
        p = subprocess.run(cmd, cwd=d, capture_output=True, text=True, timeout=500)
    except subprocess.TimeoutExpired:
        return name, cls, want, "TIMEOUT", "", time.time()-begin
    try:
        a = json.loads(p.stdout)
        v = a.get("verdict","?") + (":"+a["cause"] if a.get("cause") else "")
        m = str((a.get("evidence") or {}).get("message") or a.get("message") or "")
        if v == "pass": m = "; ".join(f'{g["gate"]}={g["state"]}' for g in a.get("gates",[]) if g["state"]!="pass")
        if v == "?": m = json.dumps(a)[:300]
    except Exception as e:
        v, m = "ERR", (p.stdout+p.stderr)[-400:]
    (d/"out.json").write_text(p.stdout)
    return name, cls, want, v, m, time.time()-begin
def main(cases):
    from concurrent.futures import ThreadPoolExecutor
    pick = sys.argv[1:]
    if pick: cases = [c for c in cases if any(c[0]==w or c[2]==w for w in pick)]
    bad = 0
    with ThreadPoolExecutor(int(os.environ.get("JOBS","2"))) as ex:
        for r in ex.map(run, cases):
            name, cls, want, v, m, s = r
            ok = (v == "pass") == (want == "pass")
            bad += not ok
            print(f'{"  " if ok else "!!"} {cls:10} {name:22} {v:36} {s:5.1f}s {m[:150]}', flush=True)
    print("surprises:", bad, "of", len(cases))
