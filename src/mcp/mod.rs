//! `evo mcp`: evo's commands as the tools of a Model Context Protocol server on stdin and stdout.
//!
//! A call of a tool is a command of evo's own in a process of its own, with `--json`: same gates, same records, same
//! object. The server only translates, so a tool cannot say anything that the command does not say. The protocol is
//! JSON-RPC 2.0, a message a line. Both of its eras are served: sessions that begin with `initialize` (revisions up to
//! 2025-11-25), and requests that each carry their version (revision 2026-07-28).
//! Source: the specification at <https://github.com/modelcontextprotocol/modelcontextprotocol>.

mod arguments;
mod calls;
mod era;
mod progress;
mod run;
mod server;
mod tool;
mod tools;
mod wire;

pub use server::serve;
pub use tool::ToolSettings;
pub use tools::names;
