//! A device with the probe kernels: buffers from values, a launch, values back; and where the values come from.

use evo_device::device::{BoundArgument, BoundLaunch, Device, ModuleId};
use evo_protocol::device::DeviceError;
use evo_protocol::tensor_map::TensorMap;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

/// The module of the probes on an open device.
pub struct Probe<'a> {
    device: &'a mut dyn Device,
    module: ModuleId,
    pub entry: &'static str,
    pub numbers: ChaCha8Rng,
    /// Blocks of a cluster in the next launch.
    pub cluster: Option<[u32; 3]>,
    /// Its dynamic shared memory.
    pub shared_bytes: u32,
    /// Its first argument: a map of the buffer at this place among inputs and outputs.
    pub map: Option<(usize, TensorMap)>,
    /// Whether a launch has left the device unusable in this process.
    pub is_lost: bool,
}

pub trait AsBytes {
    fn as_bytes(&self) -> Vec<u8>;
}

macro_rules! as_bytes {
    ($($number:ty)*) => {
        $(impl AsBytes for Vec<$number> {
            fn as_bytes(&self) -> Vec<u8> {
                self.iter().flat_map(|value| value.to_le_bytes()).collect()
            }
        })*
    };
}
as_bytes!(u8 u16 u32 f32);

impl<'a> Probe<'a> {
    pub fn new(device: &'a mut dyn Device, module: ModuleId) -> Probe<'a> {
        let numbers = ChaCha8Rng::seed_from_u64(0);
        let (cluster, shared_bytes, map) = (None, 0, None);
        Probe { device, module, entry: "", numbers, cluster, shared_bytes, map, is_lost: false }
    }

    /// The number that the kernel's name has behind `mark`, or `otherwise`.
    pub fn named(&self, mark: &str, otherwise: usize) -> usize {
        let digits = self.entry.split_once(mark).map_or("", |(_, rest)| rest);
        let end = digits.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(digits.len());
        digits[..end].parse().unwrap_or(otherwise)
    }

    /// Runs `blocks` blocks of `threads` on these inputs, then the outputs of so many bytes; gives the outputs.
    pub fn run(
        &mut self,
        [blocks, threads]: [usize; 2],
        inputs: &[&dyn AsBytes],
        outputs: &[usize],
    ) -> Result<Vec<Vec<u8>>, String> {
        self.answers([blocks, threads], inputs, outputs).map_err(|error| {
            self.is_lost |= error.sticky;
            error.to_string()
        })
    }

    fn answers(
        &mut self,
        [blocks, threads]: [usize; 2],
        inputs: &[&dyn AsBytes],
        outputs: &[usize],
    ) -> Result<Vec<Vec<u8>>, DeviceError> {
        // For this launch alone, whatever becomes of it.
        let (map, cluster) = (self.map.take(), self.cluster.take());
        let shared_bytes = std::mem::take(&mut self.shared_bytes);
        let mut buffers = Vec::new();
        for input in inputs {
            let bytes = input.as_bytes();
            let buffer = self.device.allocate("in", bytes.len() as u64)?;
            self.device.write(buffer, &bytes)?;
            buffers.push(buffer);
        }
        for bytes in outputs {
            let buffer = self.device.allocate("out", *bytes as u64)?;
            self.device.fill(buffer, 0x5a5a_5a5a)?;
            buffers.push(buffer);
        }
        let map = map.map(|(place, map)| BoundArgument::TensorMap { buffer: buffers[place], map });
        let pointers = buffers.iter().map(|buffer| BoundArgument::Buffer(*buffer));
        let launch = BoundLaunch {
            entry: self.entry.into(),
            grid: [blocks as u32, 1, 1],
            block: [threads as u32, 1, 1],
            shared_bytes,
            cluster,
            arguments: map.into_iter().chain(pointers).collect(),
            ..BoundLaunch::default()
        };
        self.device.launch(self.module, &[launch])?;
        self.device.synchronize()?;
        let answers = buffers[inputs.len()..].iter().map(|buffer| self.device.read(*buffer));
        let answers = answers.collect::<Result<Vec<_>, _>>()?;
        for buffer in buffers {
            self.device.free(buffer)?;
        }
        Ok(answers)
    }
}

/// Finds the first element that is not what a loop says.
pub fn compare<T: PartialEq + std::fmt::LowerHex>(
    what: &str,
    found: impl IntoIterator<Item = T>,
    expected: impl Fn(usize) -> T,
) -> Result<(), String> {
    match found.into_iter().enumerate().find(|(at, element)| *element != expected(*at)) {
        Some((at, element)) => Err(format!("{what} {at} is {element:#x}, not {:#x}", expected(at))),
        None => Ok(()),
    }
}

pub fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks().0.iter().map(|four| u32::from_le_bytes(*four)).collect()
}

/// The same as floats.
pub fn floats(bytes: &[u8]) -> Vec<f32> {
    words(bytes).into_iter().map(f32::from_bits).collect()
}

/// The same as halves of either type.
pub fn halves(bytes: &[u8]) -> Vec<u16> {
    bytes.as_chunks().0.iter().map(|two| u16::from_le_bytes(*two)).collect()
}

/// Roughly normal: the sum of twelve uniform numbers has variance one.
pub fn normal(numbers: &mut ChaCha8Rng) -> f64 {
    (0..12).map(|_| numbers.random::<f64>()).sum::<f64>() - 6.0
}
