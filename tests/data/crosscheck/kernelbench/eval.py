"""An evaluator with KernelBench's interface, as its version 0.2 has it. It keeps what it was given."""

import torch


class KernelExecResult:
    def __init__(self, **fields):
        empty = {"runtime": -1.0, "runtime_stats": {}, "ref_runtime": -1.0, "ref_runtime_stats": {}}
        self.fields = {"compiled": True, **empty, **fields}

    def model_dump(self):
        return self.fields


def eval_kernel_against_ref(original_model_src, custom_model_src, seed_num=42, num_correct_trials=1, num_perf_trials=10,
                            measure_performance=False, timing_method="cuda_event", verbose=False, build_dir=None, device=0,
                            backend="cuda", precision=torch.float32, check_for_excessive_speedup=True,
                            excessive_speedup_threshold=10):
    words = {"seed_num": seed_num, "timing_method": timing_method, "device": str(device), "backend": backend,
             "precision": precision, "num_correct_trials": num_correct_trials, "num_perf_trials": num_perf_trials,
             "check_for_excessive_speedup": check_for_excessive_speedup}
    return evaluate(original_model_src, custom_model_src, words, num_correct_trials, check_for_excessive_speedup)


def evaluate(original, custom, words, trials, is_compared):
    print("[Profiling] talk that is not a row")
    context = {}
    exec(original, context)
    exec(custom, context)
    model = context["Model"](*context["get_init_inputs"]())
    model_new = context["ModelNew"](*context["get_init_inputs"]())
    metadata = {"options": words, "given": []}

    def given(seed):
        torch.manual_seed(seed)
        inputs = [value.to(dtype=torch.float32).to(device="cuda:0") for value in context["get_inputs"]()]
        metadata["given"].append([value.values for value in inputs])
        return inputs

    passed = 0
    for trial in range(trials):
        inputs = given(1000 + trial)
        output, output_new = model(*inputs), model_new(*inputs)
        assert output.dtype == output_new.dtype == torch.float32
        if output.shape != output_new.shape:
            metadata["correctness_issue"] = f"Output shape mismatch: Expected {output.shape}, got {output_new.shape}"
            return KernelExecResult(correctness=False, metadata=metadata)
        off = [abs(a - b) for a, b in zip(output.values, output_new.values)]
        if all(own <= 1e-4 + 1e-4 * abs(b) for own, b in zip(off, output_new.values)):
            passed += 1
        else:
            metadata.setdefault("max_difference", []).append(f"{max(off):.6f}")
            metadata["correctness_issue"] = "Output mismatch"
    if passed < trials:
        return KernelExecResult(correctness=False, metadata=metadata)
    model_new(*given(42))
    found = {"runtime": 0.5, "runtime_stats": {"mean": 0.5, "std": 0.01, "min": 0.49, "max": 0.52, "num_trials": 100}}
    if is_compared:
        model(*given(42))
        found.update(ref_runtime=6.0, ref_runtime_stats={"mean": 6.0})
        metadata["excessive_speedup"] = True
    # What it caught of an exception is kept as the exception.
    metadata["caught"] = ValueError("kept")
    return KernelExecResult(correctness=True, metadata=metadata, **found)
