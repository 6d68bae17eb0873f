//! Templates of exported files, and the environment that renders them.

use minijinja::{AutoEscape, Environment, UndefinedBehavior, Value};
use serde_json::Value as Json;

use crate::error::ExportError;
use crate::language::Language;
use crate::literal;
use crate::source::one_line;

pub(crate) const EXACT_HPP: &str = include_str!("../templates/exact.hpp");
pub(crate) const EXACT_PY: &str = include_str!("../templates/exact.py");
pub(crate) const RECORD_RUNTIME: &str = include_str!("../templates/record_runtime.hpp");
pub(crate) const RECORD_DRIVER: &str = include_str!("../templates/record_driver.hpp");
/// A peer that calls the exported files; it needs `evo_peer.py` beside it.
pub const VERIFY_PEER: &str = include_str!("../templates/verify_peer.py");
/// What times and checks exported files with other people's tools; it needs the two beside it.
pub const CROSSCHECK: &str = include_str!("../templates/crosscheck.py");
pub(crate) const DRIVER_PY: &str = include_str!("../templates/driver.py");

const TEMPLATES: [(&str, &str); 15] = [
    ("README.md", include_str!("../templates/README.md.j2")),
    ("launch.hpp", include_str!("../templates/launch.hpp.j2")),
    ("launch_plan.py", include_str!("../templates/launch_plan.py.j2")),
    ("torch_op.py", include_str!("../templates/torch_op.py.j2")),
    ("cupy_example.py", include_str!("../templates/cupy_example.py.j2")),
    ("cuda_core_example.py", include_str!("../templates/cuda_core_example.py.j2")),
    ("torch_ext/launch.cu", include_str!("../templates/torch_ext_launch.cu.j2")),
    ("torch_ext/binding.cpp", include_str!("../templates/torch_ext_binding.cpp.j2")),
    ("torch_ext/load.py", include_str!("../templates/torch_ext_load.py.j2")),
    ("tvm_ffi/binding.cc", include_str!("../templates/tvm_ffi_binding.cc.j2")),
    ("tvm_ffi/load.py", include_str!("../templates/tvm_ffi_load.py.j2")),
    ("record.cpp", include_str!("../templates/record.cpp.j2")),
    ("record.py", include_str!("../templates/record.py.j2")),
    ("dispatch.hpp", include_str!("../templates/dispatch.hpp.j2")),
    ("dispatch.py", include_str!("../templates/dispatch.py.j2")),
];

pub(crate) fn render(name: &str, context: &Json) -> Result<String, ExportError> {
    let fault =
        |why: minijinja::Error| ExportError::Template { name: name.to_string(), why: format!("{why:#}") };
    let text = TEMPLATES.iter().find(|(own, _)| *own == name).map_or("", |(_, text)| text);
    environment().render_named_str(name, text, value(context)).map_err(fault)
}

fn value(json: &Json) -> Value {
    match json {
        Json::Null => Value::from(()),
        Json::Bool(own) => Value::from(*own),
        Json::Number(own) => own.as_i64().map_or_else(|| Value::from(own.as_f64()), Value::from),
        Json::String(own) => Value::from(own.as_str()),
        Json::Array(own) => Value::from(own.iter().map(value).collect::<Vec<Value>>()),
        Json::Object(own) => Value::from_pairs(own.iter().map(|(name, own)| (name.as_str(), value(own)))),
    }
}

fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_syntax(evo_kernel::template::syntax());
    environment.add_filter("comment", |text: String| one_line(&text));
    environment.add_filter("cpp", |text: String| literal::text(Language::Cpp, &text));
    environment.add_filter("py", |text: String| literal::text(Language::Python, &text));
    environment
}
