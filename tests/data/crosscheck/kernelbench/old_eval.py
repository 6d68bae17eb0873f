

def eval_kernel_against_ref(original_model_src, custom_model_src, seed_num=42, num_correct_trials=1, num_perf_trials=10,
                            verbose=False, measure_performance=False, build_dir=None, device=0, backend="cuda",
                            precision=torch.float32):
    return evaluate(original_model_src, custom_model_src, {}, num_correct_trials, False)
