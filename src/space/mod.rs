//! Search spaces: parameters, constraints, their valid points. Knows no kernel and no device.

pub mod constraint;
pub mod diagnostic;
pub mod document;
pub mod expr;
pub mod json;
pub mod number;
pub mod parameter;
#[expect(clippy::module_inception, reason = "the type that the folder is about")]
pub mod space;
pub mod value;
