//! The tiny shapes of one configuration, wherever they come from.

use evo_protocol::plan::ProblemPlan;
use evo_protocol::specialization::Specialization;
use evo_protocol::verdict::Verdict;
use evo_space::genome::Configuration;

use super::{derived, listed};
use crate::spec::{KernelSpec, TinySpec};

/// What a person can do about a failure at a shape that evo derived.
pub const DERIVED_HINT: &str = "evo derived this shape from the kernel's sizes and tiles; if the kernel supports only some sizes, say \
     `multiple_of = { N = \"BLOCK\" }` or `tiny = \"none\"` in `[check]`";

/// The plans of the tiny shapes, named `tiny:S=33,CAUSAL=1` by what they change.
#[derive(Clone, Debug, Default)]
pub struct TinyShapes {
    pub plans: Vec<ProblemPlan>,
    /// Shapes of several tiles, for contenders. evo derives them or there are none.
    pub several: Vec<ProblemPlan>,
    /// Whether evo derived them. A variant is never refused because such a shape cannot be launched.
    pub derived: bool,
    /// Why there are none; empty where there are.
    pub absent: String,
}

/// The tiny shapes of a configuration; `fits` says whether the device can take a plan. Derived shapes that
/// do not resolve or fit are left out; a listed one that does not resolve refuses the variant. Shapes are derived for
/// each of the sets of `constants`, so that every binary meets some.
pub fn shapes(
    kernel: &KernelSpec,
    configuration: &Configuration,
    constants: &[Specialization],
    fits: &dyn Fn(&ProblemPlan) -> bool,
) -> Result<TinyShapes, Box<Verdict>> {
    match &kernel.check.tiny {
        TinySpec::None => Ok(absent("the file says that only the sizes of its problems are supported")),
        TinySpec::Listed(list) => {
            let plans = listed::resolve(kernel, list, configuration)?;
            if plans.is_empty() {
                return Ok(absent("no shape of `tiny` has sizes of at least 1 here"));
            }
            Ok(TinyShapes { plans, ..TinyShapes::default() })
        }
        TinySpec::Derived => match derived::derive(kernel, configuration, constants, fits) {
            Ok(plans) => {
                let mut several = derived::several_tiles(kernel, configuration, constants, fits);
                several.retain(|plan| !plans.iter().any(|own| own.sizes == plan.sizes));
                Ok(TinyShapes { plans, several, derived: true, absent: String::new() })
            }
            Err(why) => Ok(absent(&format!("no shape can be derived: {why}"))),
        },
    }
}

fn absent(why: &str) -> TinyShapes {
    TinyShapes { absent: format!("{why}; tails not checked"), ..TinyShapes::default() }
}
