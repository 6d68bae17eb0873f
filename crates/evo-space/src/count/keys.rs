//! A hash table from runs of words to small numbers, made for memo keys: keys of one table are equally
//! long and lie one after the other, so that an entry costs its words and a few bytes.

/// What `KeyTable::entry` found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEntry {
    /// The value that was set for this key.
    Known(u32),
    /// A new entry, whose value is to be set.
    New(u32),
}

/// Keys of `stride` words each, and a number for each.
#[derive(Debug)]
pub struct KeyTable {
    stride: usize,
    keys: Vec<u64>,
    values: Vec<u32>,
    /// KeyEntry number plus one, by hash; 0 is free. A power of two long, or empty as long as the table is.
    buckets: Vec<u32>,
}

impl KeyTable {
    /// An empty table for keys of `stride` words.
    pub fn new(stride: usize) -> KeyTable {
        KeyTable { stride, keys: Vec::new(), values: Vec::new(), buckets: Vec::new() }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// The key of an entry.
    pub fn key(&self, entry: usize) -> &[u64] {
        &self.keys[entry * self.stride..(entry + 1) * self.stride]
    }

    /// The entry of `key`, made if there is none; a new one has no value until `set` is called.
    pub fn entry(&mut self, key: &[u64]) -> KeyEntry {
        if self.values.len() * 2 >= self.buckets.len() {
            self.grow();
        }
        let mut at = hash(key) as usize & (self.buckets.len() - 1);
        while let Some(found) = (self.buckets[at] as usize).checked_sub(1) {
            if self.key(found) == key {
                return KeyEntry::Known(self.values[found]);
            }
            at = (at + 1) & (self.buckets.len() - 1);
        }
        let number = self.values.len() as u32;
        self.keys.extend_from_slice(key);
        self.values.push(u32::MAX);
        self.buckets[at] = number + 1;
        KeyEntry::New(number)
    }

    /// Sets the value of an entry.
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

    fn grow(&mut self) {
        let mask = (self.buckets.len() * 4).max(8) - 1;
        self.buckets.clear();
        self.buckets.resize(mask + 1, 0);
        for entry in 0..self.values.len() {
            let mut at = hash(self.key(entry)) as usize & mask;
            while self.buckets[at] != 0 {
                at = (at + 1) & mask;
            }
            self.buckets[at] = entry as u32 + 1;
        }
    }
}

/// Multiply and rotate: keys are short runs of small integers and masks from our own search, so nobody
/// can aim collisions at us, and the standard hasher took a third of the time.
pub fn hash(key: &[u64]) -> u64 {
    let mixed =
        key.iter().fold(0u64, |hash, word| (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    // The low bits choose the bucket; multiplication leaves the best ones on top.
    mixed ^ (mixed >> 32)
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
}
