//! What several tests need. What a space answers is held against all of its points in `tests/it/space_properties`.

use crate::space::SearchSpace;

#[track_caller]
pub fn space(text: &str) -> SearchSpace {
    SearchSpace::parse(text).unwrap_or_else(|diagnostics| panic!("{}", diagnostics.render("test.toml", text)))
}

pub fn is_uniform(seen: &[f64]) -> bool {
    let mean = seen.iter().sum::<f64>() / seen.len() as f64;
    let chi_squared: f64 = seen.iter().map(|n| (n - mean).powi(2) / mean).sum();
    // Its mean is one less than the cells, its deviation the root of twice that; five are far out.
    let cells = seen.len() as f64;
    chi_squared < cells + 5.0 * (2.0 * cells).sqrt()
}
