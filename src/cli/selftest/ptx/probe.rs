//! A device with the probe kernels: buffers from values, a launch, values back.

use evo_device::device::{BoundArgument, BoundLaunch, Device, ModuleId};
use evo_protocol::device::DeviceError;
use evo_protocol::tensor_map::TensorMap;

/// The module of the probes on an open device.
pub struct Probe<'a> {
    pub device: &'a mut dyn Device,
    pub module: ModuleId,
    /// Blocks of a cluster in launches from now on.
    pub cluster: Option<[u32; 3]>,
    /// Their dynamic shared memory.
    pub shared_bytes: u32,
    /// Their first argument: a map of the buffer at this place among inputs and outputs.
    pub map: Option<(usize, TensorMap)>,
    /// Whether a launch has left the device unusable in this process.
    pub is_lost: bool,
}

/// Bytes of plain numbers, as devices have them.
pub trait AsBytes {
    fn as_bytes(&self) -> Vec<u8>;
}

macro_rules! as_bytes {
    ($($number:ty)*) => {
        $(impl AsBytes for &[$number] {
            fn as_bytes(&self) -> Vec<u8> {
                self.iter().flat_map(|value| value.to_le_bytes()).collect()
            }
        })*
    };
}
as_bytes!(u8 u16 u32 f32);

impl Probe<'_> {
    /// Runs `blocks` blocks of `threads` on these inputs, then the outputs of so many bytes; gives the outputs.
    pub fn run(
        &mut self,
        entry: &str,
        [blocks, threads]: [usize; 2],
        inputs: &[&dyn AsBytes],
        outputs: &[usize],
    ) -> Result<Vec<Vec<u8>>, String> {
        self.answers(entry, [blocks, threads], inputs, outputs).map_err(|error| {
            self.is_lost |= error.sticky;
            error.to_string()
        })
    }

    fn answers(
        &mut self,
        entry: &str,
        [blocks, threads]: [usize; 2],
        inputs: &[&dyn AsBytes],
        outputs: &[usize],
    ) -> Result<Vec<Vec<u8>>, DeviceError> {
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
        let map = self.map.clone();
        let map = map.map(|(place, map)| BoundArgument::TensorMap { buffer: buffers[place], map });
        let pointers = buffers.iter().map(|buffer| BoundArgument::Buffer(*buffer));
        let launch = BoundLaunch {
            entry: entry.into(),
            grid: [blocks as u32, 1, 1],
            block: [threads as u32, 1, 1],
            shared_bytes: self.shared_bytes,
            cluster: self.cluster,
            cooperative: false,
            programmatic: false,
            l2_persist: None,
            arguments: map.into_iter().chain(pointers).collect(),
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

/// DrawnNumbers of a buffer.
pub fn words(bytes: &[u8]) -> Vec<u32> {
    let four = |four: &[u8]| u32::from_le_bytes([four[0], four[1], four[2], four[3]]);
    bytes.chunks_exact(4).map(four).collect()
}

/// The same as floats.
pub fn floats(bytes: &[u8]) -> Vec<f32> {
    words(bytes).into_iter().map(f32::from_bits).collect()
}

/// The same as halves of either type.
pub fn halves(bytes: &[u8]) -> Vec<u16> {
    bytes.chunks_exact(2).map(|two| u16::from_le_bytes([two[0], two[1]])).collect()
}
