//! Runs of 64-bit words: sets of a slot's remaining values, a bit for each, and memo keys with small numbers for them.
//! Keys of one table are equally long and lie one after the other.
//!
//! Keys come from our own search, so nobody can aim for collisions and a simple hash will do. With `rustc-hash` and
//! `hashbrown` the twelve public spaces of other tuners are built in 20.8 ms together, with the table and the hash that
//! stood here before in 21.9 ms (November 2026).

use std::hash::Hasher;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rustc_hash::FxHasher;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEntry {
    Known(u32),
    New(u32),
}

#[derive(Debug)]
pub struct KeyTable {
    stride: usize,
    keys: Vec<u64>,
    values: Vec<u32>,
    entries: HashTable<u32>,
}

impl KeyTable {
    pub fn new(stride: usize) -> KeyTable {
        KeyTable { stride, keys: Vec::new(), values: Vec::new(), entries: HashTable::new() }
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn key(&self, entry: usize) -> &[u64] {
        &self.keys[entry * self.stride..(entry + 1) * self.stride]
    }

    /// The entry of `key`, made if there is none; a new one has no value until `set` is called.
    pub fn entry(&mut self, key: &[u64]) -> KeyEntry {
        let KeyTable { stride, keys, values, entries } = self;
        let key_of = |entry: &u32| &keys[*entry as usize * *stride..(*entry as usize + 1) * *stride];
        // Hashing keys again when the table grows costs less memory than a stored hash per entry.
        match entries.entry(hash(key), |entry| key_of(entry) == key, |entry| hash(key_of(entry))) {
            Entry::Occupied(found) => KeyEntry::Known(values[*found.get() as usize]),
            Entry::Vacant(place) => {
                let number = values.len() as u32;
                place.insert(number);
                keys.extend_from_slice(key);
                values.push(u32::MAX);
                KeyEntry::New(number)
            }
        }
    }

    pub fn set(&mut self, entry: u32, value: u32) {
        self.values[entry as usize] = value;
    }

    /// The number of `key`: its position in the order in which keys first came.
    pub fn intern(&mut self, key: &[u64]) -> u32 {
        match self.entry(key) {
            KeyEntry::Known(value) => value,
            KeyEntry::New(entry) => {
                self.set(entry, entry);
                entry
            }
        }
    }
}

fn hash(key: &[u64]) -> u64 {
    let mut hasher = FxHasher::default();
    key.iter().for_each(|word| hasher.write_u64(*word));
    hasher.finish()
}

pub fn words_for(size: usize) -> usize {
    size.div_ceil(64)
}

pub fn push_full(words: &mut Vec<u64>, size: usize) {
    words.extend(std::iter::repeat_n(u64::MAX, size / 64));
    // Sets are compared and tested for emptiness by whole words.
    if !size.is_multiple_of(64) {
        words.push((1 << (size % 64)) - 1);
    }
}

pub fn is_empty(words: &[u64]) -> bool {
    words.iter().all(|word| *word == 0)
}

pub fn members(words: &[u64]) -> impl Iterator<Item = usize> + '_ {
    words.iter().enumerate().flat_map(|(number, word)| {
        let mut left = *word;
        std::iter::from_fn(move || {
            let bit = (left != 0).then(|| left.trailing_zeros() as usize)?;
            left &= left - 1;
            Some(number * 64 + bit)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_keep_their_numbers_while_the_table_grows() {
        let mut table = KeyTable::new(2);
        for round in 0..2 {
            for number in 0..5000u64 {
                assert_eq!(table.intern(&[number % 70, number / 70]), number as u32, "round {round}");
            }
        }
        assert_eq!(table.len(), 5000);
        assert_eq!(table.key(71), [1, 1]);
        assert_eq!(table.entry(&[3, 0]), KeyEntry::Known(3));
        assert_eq!(table.entry(&[3, 1000]), KeyEntry::New(5000));
    }

    #[test]
    fn a_key_without_words_is_one_key() {
        let mut table = KeyTable::new(0);
        assert_eq!(table.entry(&[]), KeyEntry::New(0));
        table.set(0, 7);
        assert_eq!(table.entry(&[]), KeyEntry::Known(7));
    }

    #[test]
    fn sets_of_any_size() {
        for size in [0, 1, 63, 64, 65, 128, 1000] {
            let mut words = Vec::new();
            push_full(&mut words, size);
            assert_eq!(words.len(), words_for(size));
            assert!(members(&words).eq(0..size), "{size}");
            assert_eq!(is_empty(&words), size == 0);
        }
        assert!(members(&[0b1010, 0, 1]).eq([1, 3, 128]));
    }
}
