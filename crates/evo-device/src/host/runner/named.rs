//! Named barriers of a block: numbers 1 to 15, each for as many threads as its users say.

/// Barriers that a block has, the one of `__syncthreads` included.
pub const COUNT: usize = 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NamedBarrier {
    pub arrived: u32,
    /// How many threads it waits for, as the first to come said.
    pub expected: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    Early,
    Last,
    Differs { expected: u32 },
}

impl NamedBarrier {
    pub fn arrive(&mut self, threads: u32) -> Arrival {
        if self.arrived == 0 {
            self.expected = threads;
        }
        if self.expected != threads {
            return Arrival::Differs { expected: self.expected };
        }
        self.arrived += 1;
        if self.arrived < threads {
            return Arrival::Early;
        }
        self.arrived = 0;
        Arrival::Last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_arrival_opens_it_and_numbers_must_agree() {
        let mut barrier = NamedBarrier::default();
        assert_eq!(barrier.arrive(2), Arrival::Early);
        assert_eq!(barrier.arrive(3), Arrival::Differs { expected: 2 });
        assert_eq!(barrier.arrive(2), Arrival::Last);
        assert_eq!(barrier.arrive(1), Arrival::Last);
    }
}
