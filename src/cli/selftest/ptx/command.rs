//! Opens the device, loads the probes, runs a check for each instruction and shape.

use evo_device::device::Device;
use evo_device::open::open;
use evo_protocol::binary::{HEADER_END, KernelSource};
use evo_protocol::device::{DeviceInfo, DeviceKind};
use evo_protocol::envelope::ErrorCode;
use evo_protocol::specialization::Specialization;
use evo_space::genome::ContentHash;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::operands::DrawnNumbers;
use super::probe::Probe;
use super::{boxes, bulk, groups, moves, numbers, products};
use crate::cli::device_lane;
use crate::cli::error::CliError;
use crate::cli::selftest::checks::SelftestReport;
use crate::cli::session::DeviceSetup;
use crate::compile::compile_one;

/// Kernels that the checks launch.
const PROBES: &str = concat!(include_str!("probes.cu"), include_str!("hopper.cu"));

/// Runs the checks whose name contains `only`, or all.
pub fn run(
    setup: &DeviceSetup,
    only: Option<&str>,
    seed: u64,
) -> Result<(serde_json::Value, SelftestReport), CliError> {
    eprintln!("seed {seed}: repeat with --seed {seed}");
    let rows = rows();
    let binary = compile_one(&setup.farm, source(&rows))?.map_err(|verdict| {
        CliError::harness(format!("the probe kernels do not compile: {}", verdict.message))
    })?;
    let image = std::fs::read(&binary.path)?;
    let cubin = device_lane::support_cubin(setup)?;
    let mut device: Box<dyn Device> =
        open(&setup.choice.spec, cubin.as_deref(), device_lane::rooms(setup.sandbox)?)
            .map_err(|error| CliError::environment(error.to_string()).with_code(ErrorCode::NoDevice))?;
    let info = device.info().clone();
    let entries: Vec<String> = rows.iter().map(|row| row.entry.to_string()).collect();
    let failed = |error: evo_protocol::device::DeviceError| CliError::environment(error.to_string());
    let module = device.load(&image, &entries).map_err(failed)?;
    let mut probe =
        Probe { device: device.as_mut(), module, cluster: None, shared_bytes: 0, map: None, is_lost: false };
    let mut lost_in = None;
    let mut report = SelftestReport::default();
    for row in rows.iter().filter(|row| only.is_none_or(|only| row.entry.contains(only))) {
        if let Some(why) = row.missing(&info) {
            report.skip(row.entry, why);
            continue;
        }
        // The driver refuses all further work of a process whose kernel has crashed, which is not the other rows' fault.
        if let Some(culprit) = lost_in {
            let why = format!("the device was lost in `{culprit}`: run this one with --only {}", row.entry);
            report.skip(row.entry, &why);
            continue;
        }
        let mut drawn = DrawnNumbers(ChaCha8Rng::seed_from_u64(seed));
        report.add(row.entry, row.play(&mut probe, &mut drawn));
        lost_in = probe.is_lost.then_some(row.entry);
    }
    if report.checks.is_empty() {
        let only = only.unwrap_or_default();
        return Err(CliError::usage(format!("no instruction has `{only}` in its name")));
    }
    Ok((serde_json::to_value(info)?, report))
}

fn source(rows: &[InstructionRow]) -> KernelSource {
    let hash = ContentHash::of(PROBES.as_bytes());
    let symbol = format!("extern \"C\" __device__ const char evo_variant_hash[] = \"{hash}\";\n");
    KernelSource {
        text: format!("{symbol}{HEADER_END}{PROBES}"),
        options: Vec::new(),
        entries: rows.iter().map(|row| row.entry.to_string()).collect(),
        file_name: "probes.cu".into(),
        variant_hash: hash,
        instrumented: false,
        constants: Specialization::default(),
    }
}

/// One check, by the entry point that it launches.
struct InstructionRow {
    entry: &'static str,
    subject: InstructionCheck,
}

enum InstructionCheck {
    Product(&'static products::ProductShape),
    /// Matrices, and whether they are transposed.
    Load(usize, bool),
    Store(usize, bool),
    /// Bytes of a piece, and whether only a part is read.
    Copy(usize, bool),
    Groups,
    Barriers,
    Exponentials,
    Packs,
    Unpacks,
    Reductions,
    /// What needs sm_90a: a product of a warpgroup, and the rest.
    Group,
    Ring,
    Stores,
    /// Copies of boxes of a rank, by clusters of so many blocks.
    BoxLoads(usize, usize),
    BoxStores(usize),
    /// Blocks of a cluster.
    Clusters(usize),
    Registers,
}

impl InstructionRow {
    /// Why it cannot run on this device.
    fn missing(&self, info: &DeviceInfo) -> Option<&'static str> {
        let number = info.arch.trim_start_matches("sm_").trim_end_matches(['a', 'f']).parse::<u32>();
        let old = |least: u32| info.kind == DeviceKind::Cuda && number.as_ref().is_ok_and(|own| *own < least);
        match self.subject {
            InstructionCheck::Store(..) if old(90) => Some("stmatrix needs sm_90"),
            InstructionCheck::Group
            | InstructionCheck::Ring
            | InstructionCheck::Stores
            | InstructionCheck::BoxLoads(..)
            | InstructionCheck::BoxStores(_)
            | InstructionCheck::Clusters(_)
            | InstructionCheck::Registers
                if info.kind == DeviceKind::Cuda && info.arch != "sm_90a" =>
            {
                Some("the probes need sm_90a")
            }
            _ if old(80) => Some("the probes need sm_80"),
            _ => None,
        }
    }

    fn play(&self, probe: &mut Probe<'_>, drawn: &mut DrawnNumbers) -> Result<String, String> {
        match self.subject {
            InstructionCheck::Product(shape) => products::check(probe, shape, drawn),
            InstructionCheck::Load(count, transposed) => {
                moves::loads(probe, self.entry, (count, transposed), drawn)
            }
            InstructionCheck::Store(count, transposed) => {
                moves::stores(probe, self.entry, (count, transposed), drawn)
            }
            InstructionCheck::Copy(bytes, zfill) => moves::copies(probe, self.entry, (bytes, zfill), drawn),
            InstructionCheck::Groups => moves::groups(probe, drawn),
            InstructionCheck::Barriers => moves::barriers(probe, drawn),
            InstructionCheck::Exponentials => numbers::exponentials(probe, drawn),
            InstructionCheck::Packs => numbers::packs(probe, drawn),
            InstructionCheck::Unpacks => numbers::unpacks(probe),
            InstructionCheck::Reductions => numbers::reductions(probe, drawn),
            InstructionCheck::Group => groups::check(probe, self.entry, drawn),
            InstructionCheck::Ring => bulk::ring(probe, drawn),
            InstructionCheck::Stores => bulk::stores(probe, drawn),
            InstructionCheck::BoxLoads(rank, cluster) => {
                boxes::loads(probe, self.entry, (rank, cluster), drawn)
            }
            InstructionCheck::BoxStores(rank) => boxes::stores(probe, self.entry, rank, drawn),
            InstructionCheck::Clusters(size) => bulk::clusters(probe, size, drawn),
            InstructionCheck::Registers => bulk::registers(probe, drawn),
        }
    }
}

fn rows() -> Vec<InstructionRow> {
    let products = products::SHAPES.iter().map(|shape| (shape.entry, InstructionCheck::Product(shape)));
    let moves = [
        ("load_x1", InstructionCheck::Load(1, false)),
        ("load_x2", InstructionCheck::Load(2, false)),
        ("load_x4", InstructionCheck::Load(4, false)),
        ("load_x1_trans", InstructionCheck::Load(1, true)),
        ("load_x2_trans", InstructionCheck::Load(2, true)),
        ("load_x4_trans", InstructionCheck::Load(4, true)),
        ("store_x1", InstructionCheck::Store(1, false)),
        ("store_x2", InstructionCheck::Store(2, false)),
        ("store_x4", InstructionCheck::Store(4, false)),
        ("store_x1_trans", InstructionCheck::Store(1, true)),
        ("store_x2_trans", InstructionCheck::Store(2, true)),
        ("store_x4_trans", InstructionCheck::Store(4, true)),
        ("copy_ca_4", InstructionCheck::Copy(4, false)),
        ("copy_ca_8", InstructionCheck::Copy(8, false)),
        ("copy_ca_16", InstructionCheck::Copy(16, false)),
        ("copy_cg_16", InstructionCheck::Copy(16, false)),
        ("copy_cg_16_l2", InstructionCheck::Copy(16, false)),
        ("copy_ca_4_zfill", InstructionCheck::Copy(4, true)),
        ("copy_ca_8_zfill", InstructionCheck::Copy(8, true)),
        ("copy_ca_16_zfill", InstructionCheck::Copy(16, true)),
        ("copy_cg_16_zfill", InstructionCheck::Copy(16, true)),
        ("copy_groups", InstructionCheck::Groups),
        ("named_barriers", InstructionCheck::Barriers),
        ("exponentials", InstructionCheck::Exponentials),
        ("packs", InstructionCheck::Packs),
        ("unpacks", InstructionCheck::Unpacks),
        ("reductions", InstructionCheck::Reductions),
        ("bulk_ring", InstructionCheck::Ring),
        ("bulk_stores", InstructionCheck::Stores),
        ("box_load_1d", InstructionCheck::BoxLoads(1, 1)),
        ("box_load_2d", InstructionCheck::BoxLoads(2, 1)),
        ("box_load_3d", InstructionCheck::BoxLoads(3, 1)),
        ("box_load_4d", InstructionCheck::BoxLoads(4, 1)),
        ("box_load_5d", InstructionCheck::BoxLoads(5, 1)),
        ("box_multicast_2d", InstructionCheck::BoxLoads(2, 1)),
        ("box_multicast_2d", InstructionCheck::BoxLoads(2, 2)),
        ("box_store_1d", InstructionCheck::BoxStores(1)),
        ("box_store_2d", InstructionCheck::BoxStores(2)),
        ("box_store_3d", InstructionCheck::BoxStores(3)),
        ("box_store_4d", InstructionCheck::BoxStores(4)),
        ("box_store_5d", InstructionCheck::BoxStores(5)),
        ("clusters", InstructionCheck::Clusters(1)),
        ("clusters", InstructionCheck::Clusters(4)),
        ("registers_and_elections", InstructionCheck::Registers),
    ];
    let groups = groups::ENTRIES.iter().map(|entry| (*entry, InstructionCheck::Group));
    products.chain(moves).chain(groups).map(|(entry, subject)| InstructionRow { entry, subject }).collect()
}
