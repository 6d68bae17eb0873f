//! The seed of a run whose user names none: random, so that no kernel can be made for the inputs that it
//! will meet. It is printed and stored, and `--seed` repeats the run.

use std::fs::File;
use std::io::Read;

use super::{CliError, Result};

/// Bits of a random seed. JSON readers that hold numbers as doubles keep this many.
const BITS: u32 = 53;

pub fn random() -> Result<u64> {
    let bytes = drawn("a seed").map_err(|error| error.with_hint("name one with `--seed`"))?;
    Ok(u64::from_le_bytes(bytes) >> (u64::BITS - BITS))
}

/// Bytes that nobody can guess.
pub fn drawn<const COUNT: usize>(what: &str) -> Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| CliError::environment(format!("cannot draw {what} from `/dev/urandom`: {error}")))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_differ_and_fit_a_double() {
        let [one, two] = [random().unwrap(), random().unwrap()];
        assert_ne!(one, two);
        assert!([one, two].iter().all(|seed| *seed as f64 as u64 == *seed && *seed < 1 << 53));
    }
}
