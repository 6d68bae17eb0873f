//! Time slices for fibers: a thread that waits for another of its block by reading memory again and again must
//! not keep that other from running.
//! A GPU runs the threads of a block side by side, so a spin on a flag ends there; here, where fibers give way only
//! at barriers and warp operations, it would last for ever. So a `ticker` looks every 10 ms at what each processor
//! thread does, and when one of them has run the same fiber since the last look, a `signal` makes the fiber call the
//! scheduler as if the kernel had done so itself. A launch whose threads all come to a barrier or an end within a
//! slice never gets a signal.
//!
//! A launch in a seeded order may begin with blocks that wait for blocks that come later. When no processor thread
//! has begun another block for three looks, the ticker asks for one more processor thread.
//!
//! Only on x86-64: elsewhere a spin without `__nanosleep` hangs.

mod clock;
mod signal;
mod ticker;

pub use clock::{InterruptSection, TurnClock};
pub use signal::{enter, leave};
pub use ticker::{SliceTicker, TurnClocks};
