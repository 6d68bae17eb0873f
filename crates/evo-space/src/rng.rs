//! The generator of everything that is drawn.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

/// The one generator: named and portable, so that a printed seed means the same next year.
pub fn seeded(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}
