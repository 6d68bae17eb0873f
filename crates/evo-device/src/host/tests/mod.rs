//! Kernels compiled by the system's compiler and run here: most of them are fixtures, the rest has a file a subject.

mod faults;
mod fixtures;
mod kernels;
mod slices;
mod tensor_maps;

use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use evo_protocol::binary::KernelSource;
use evo_protocol::device::DeviceError;
use evo_protocol::measurement::TimingMode;

use super::{HostDevice, initializers, translate};
use crate::device::{
    BlockTurns, BoundArgument, BoundLaunch, BufferId, Device, Executor, Memory, ModuleId, Placement,
    RunConditions, SampleOrder, Watch, WatchedBuffer, WatchedContents,
};

fn compile(text: &str, entries: &[&str]) -> Vec<u8> {
    compile_as(text, entries, false).unwrap()
}

fn compile_as(text: &str, entries: &[&str], instrumented: bool) -> Result<Vec<u8>, String> {
    static INCLUDE: OnceLock<tempfile::TempDir> = OnceLock::new();
    let include = INCLUDE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in translate::headers() {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let header = folder.path().join("evo_cuda.h");
        std::fs::create_dir(header.with_extension("h.gch")).unwrap();
        for (name, flags) in
            [("plain", translate::flags()), ("instrumented", translate::instrumented_flags(true))]
        {
            let to = header.with_extension("h.gch").join(name);
            let mut compiler = Command::new("c++");
            compiler.args(translate::header_flags(&flags)).arg(&header).arg("-o").arg(to);
            // A compiler that takes no precompiled header reads the header itself.
            let _ = compiler.output();
        }
        folder
    });
    let source = KernelSource {
        // Macros with the names of our header's template parameters must not reach it.
        options: ["-DN=32", "-D", "T=float", "-Dpointer=7", "-Dentries=8"].map(String::from).into(),
        instrumented,
        ..KernelSource::plain("kernel.cu", text, entries.iter().copied())
    };
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("unit.cpp"), folder.path().join("unit.so"));
    std::fs::write(&input, translate::translation_unit(&source).unwrap()).unwrap();
    let run = |flags: Vec<String>, input: &Path, output: &Path| {
        let mut command = Command::new("c++");
        command.args(flags).arg("-I").arg::<&Path>(include.path());
        let result = command.arg("-o").arg(output).arg(input).output().unwrap();
        if result.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&result.stderr).into_owned())
        }
    };
    let object = folder.path().join("unit.o");
    let flags = if instrumented { translate::instrumented_flags(true) } else { translate::flags() };
    run(flags, &input, &object)?;
    let mut padded = std::fs::read(&object).unwrap();
    translate::pad(&mut padded).unwrap();
    std::fs::write(&object, padded).unwrap();
    run(translate::LINK_FLAGS.map(String::from).into(), &object, &output)?;
    let mut binary = std::fs::read(&output).unwrap();
    if instrumented {
        initializers::silence(&mut binary).unwrap();
    }
    Ok(binary)
}

struct Bench {
    device: HostDevice,
    module: ModuleId,
    entry: String,
}

impl Bench {
    fn new(text: &str, entry: &str) -> Bench {
        Bench::on(HostDevice::with_threads(2).unwrap(), &compile(text, &[entry]), entry)
    }

    fn on(mut device: HostDevice, binary: &[u8], entry: &str) -> Bench {
        let module = device.load(binary, &[entry.to_string()]).unwrap();
        Bench { device, module, entry: entry.to_string() }
    }

    fn watched(text: &str, entry: &str) -> Bench {
        Bench::on(HostDevice::with_threads(2).unwrap(), &compile_as(text, &[entry], true).unwrap(), entry)
    }

    fn buffer<T: Copy>(&mut self, name: &str, values: &[T]) -> BufferId {
        // SAFETY: the tests use plain numbers, which have no padding.
        let bytes =
            unsafe { std::slice::from_raw_parts(values.as_ptr().cast::<u8>(), size_of_val(values)) }.to_vec();
        let id = self.device.allocate(name, bytes.len() as u64).unwrap();
        self.device.write(id, &bytes).unwrap();
        id
    }

    fn values<T: Copy + Default>(&mut self, id: BufferId) -> Vec<T> {
        let bytes = self.device.read(id).unwrap();
        let mut values = vec![T::default(); bytes.len() / size_of::<T>()];
        // SAFETY: both hold so many bytes of plain numbers.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), values.as_mut_ptr().cast::<u8>(), bytes.len())
        };
        values
    }

    fn bound(&self, grid: u32, block: u32, shared_bytes: u32, arguments: Vec<BoundArgument>) -> BoundLaunch {
        BoundLaunch {
            entry: self.entry.clone(),
            grid: [grid, 1, 1],
            block: [block, 1, 1],
            shared_bytes,
            arguments,
            ..BoundLaunch::default()
        }
    }

    fn run(
        &mut self,
        grid: u32,
        block: u32,
        shared: u32,
        arguments: Vec<BoundArgument>,
    ) -> Result<(), DeviceError> {
        let bound = self.bound(grid, block, shared, arguments);
        self.device.launch(self.module, &[bound])?;
        self.device.synchronize()
    }

    fn sample(&mut self, bound: &BoundLaunch, mode: TimingMode, samples: u32, batch: u32) -> Vec<f64> {
        let rotation = &[vec![bound.clone()]];
        let order = SampleOrder { rotation, mode, samples, batch, untouched: false };
        self.device.sample(self.module, order).unwrap()
    }
}

/// What watched launches of tests ask for, which are short.
fn watch(buffers: &[(BufferId, WatchedContents)], order: u64) -> Watch {
    let watched = |(buffer, contents): &(BufferId, WatchedContents)| WatchedBuffer {
        buffer: *buffer,
        contents: *contents,
    };
    Watch {
        buffers: buffers.iter().map(watched).collect(),
        order,
        turns: BlockTurns::OneByOne,
        residue: 0xffff_ffff,
        accesses_max: 1 << 22,
        time_max: Duration::from_secs(20),
    }
}

fn buffer(id: BufferId) -> BoundArgument {
    BoundArgument::Buffer(id)
}

fn int(value: i32) -> BoundArgument {
    BoundArgument::Scalar(value.to_le_bytes().to_vec())
}
