//! Whether a target has the copy engine that reads tensor maps.

use evo_protocol::plan::ProblemPlan;
use evo_protocol::verdict::{Verdict, VerdictKind};

/// First compute capability with tensor maps (CUDA driver API, "Tensor Map Object Management").
const FIRST: u32 = 90;

/// Refuses a plan with tensor maps for a GPU without them (`static_reject` with the cause `tensor_map`). The host
/// device has them, and so has a target that is not known.
pub fn check(plan: &ProblemPlan, arch: &str) -> Result<(), Box<Verdict>> {
    let capability = arch.strip_prefix("sm_").map(|digits| digits.trim_end_matches(['a', 'f']));
    let lacks = capability.and_then(|digits| digits.parse::<u32>().ok()).is_some_and(|own| own < FIRST);
    let Some(map) = plan.tensor_maps.first().filter(|_| lacks) else { return Ok(()) };
    let message = format!(
        "argument `{}` is a tensor map, which `{arch}` does not have: sm_{FIRST} is the first with them, in problem `{}`",
        map.name, plan.name
    );
    let verdict = Verdict::new(VerdictKind::StaticReject, message).with_cause("tensor_map");
    Err(Box::new(verdict.with("argument", map.name.clone()).with("problem", plan.name.clone())))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn gpus_before_sm_90_have_no_tensor_maps() {
        let plan = |maps: serde_json::Value| -> ProblemPlan {
            let plan = json!({"name": "p", "sizes": {}, "weight": 1.0, "buffers": [], "scalars": [],
                "tensor_maps": maps, "launches": [], "flops": null, "bytes": null});
            serde_json::from_value(plan).unwrap()
        };
        let map = json!({"dtype": "f32", "dims": [4], "strides": [], "box": [4], "swizzle": "none", "fill": "zero"});
        let with = plan(json!([{"name": "m", "of": 0, "map": map}]));
        for arch in ["sm_90a", "sm_90", "sm_100a", "sm_120", "host", ""] {
            assert!(check(&with, arch).is_ok(), "{arch}");
        }
        let refused = check(&with, "sm_89").unwrap_err();
        assert_eq!(refused.label(), "static_reject:tensor_map");
        assert_eq!(
            refused.message,
            "argument `m` is a tensor map, which `sm_89` does not have: sm_90 is the first with them, in problem `p`"
        );
        assert!(check(&plan(json!([])), "sm_89").is_ok());
    }
}
