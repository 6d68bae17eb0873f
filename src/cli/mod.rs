//! Commands: arguments become a validated plan, the plan is run, the result is reported.

// Comments on options are help texts, in which brackets are not links.
#![allow(rustdoc::broken_intra_doc_links)]

pub mod answers;
mod args;
mod bench;
mod cache;
mod call;
mod candidate;
pub mod command_line;
mod compile;
mod crosscheck;
mod entry;
pub mod error;
mod evaluate;
mod explain;
mod export;
mod export_plan;
mod export_verify;
mod gate;
mod history;
mod import;
mod init;
mod invert;
mod judge;
pub mod limits;
mod man;
mod micro;
mod one_args;
pub mod output;
mod peers;
mod preflight;
mod profile;
mod progress;
mod render;
mod report;
pub mod request;
mod rival;
mod sanitize;
pub mod seed;
pub mod selftest;
pub mod session;
mod space;
mod sweep;
mod test_one;
mod watch;
pub mod words;
mod worker;

pub use entry::main;
pub use one_args::SandboxMode;

// What commands are made of.
pub use call::{Answer, Call};
pub use error::{CliError, ExitCode, Result};
pub(crate) use one_args::TestOneArgs;
pub use session::DeviceSetup;
