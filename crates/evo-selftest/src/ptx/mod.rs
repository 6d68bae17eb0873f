//! Every instruction of `evo/ptx.cuh` on this device, beside plain loops on this processor.
//!
//! The loops know nothing of fragments and lanes: they multiply matrices in double precision and move rows. What the
//! host device and a GPU both agree with is the same on the two, within the bound that the header states.

mod boxes;
mod moves;
mod numbers;
mod probe;
mod products;

use evo::cli::error::CliError;
use evo::cli::selftest::{SelftestReport, open_device, probe_image};
use evo_protocol::device::{DeviceInfo, DeviceKind};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use self::Needs::{Sm80, Sm90, Sm90a};
use self::probe::Probe;
use crate::order::{Order, failed};

const PROBES: &str = concat!(include_str!("probes.cu"), include_str!("hopper.cu"));

/// The least of a GPU; the host device has everything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Sm80,
    Sm90,
    Sm90a,
}

impl Needs {
    /// Why a check cannot run on this device.
    fn missing(self, info: &DeviceInfo) -> Option<&'static str> {
        if info.kind != DeviceKind::Cuda {
            return None;
        }
        let number = info.arch.trim_start_matches("sm_").trim_end_matches(['a', 'f']).parse::<u32>();
        let is_below = |least: u32| number.as_ref().is_ok_and(|number| *number < least);
        match self {
            Sm90a if info.arch != "sm_90a" => Some("the probes need sm_90a"),
            Sm90 if is_below(90) => Some("stmatrix needs sm_90"),
            _ if is_below(80) => Some("the probes need sm_80"),
            _ => None,
        }
    }
}

type Check = fn(&mut Probe<'_>) -> Result<String, String>;

/// Entry points, what they need, and what is compared; a check has its extents from the name.
const ROWS: &[(&str, Needs, Check)] = &[
    ("mma_k16_f16_f32 mma_k16_bf16_f32 mma_k16_f16_f16", Sm80, products::of_warp),
    ("mma_k8_f16_f32 mma_k8_bf16_f32 mma_k8_f16_f16", Sm80, products::of_warp),
    ("load_x1 load_x2 load_x4 load_x1_trans load_x2_trans load_x4_trans", Sm80, moves::loads),
    ("store_x1 store_x2 store_x4 store_x1_trans store_x2_trans store_x4_trans", Sm90, moves::stores),
    ("copy_ca_4 copy_ca_8 copy_ca_16 copy_cg_16 copy_cg_16_l2", Sm80, moves::copies),
    ("copy_ca_4_zfill copy_ca_8_zfill copy_ca_16_zfill copy_cg_16_zfill", Sm80, moves::copies),
    ("copy_groups", Sm80, moves::copy_groups),
    ("named_barriers", Sm80, moves::barriers),
    ("exponentials", Sm80, numbers::exponentials),
    ("packs", Sm80, numbers::packs),
    ("unpacks", Sm80, numbers::unpacks),
    ("reductions", Sm80, numbers::reductions),
    ("bulk_ring", Sm90a, moves::bulk_ring),
    ("bulk_stores", Sm90a, moves::bulk_stores),
    ("box_load_1d box_load_2d box_load_3d box_load_4d box_load_5d", Sm90a, boxes::loads),
    ("box_multicast_2d", Sm90a, boxes::multicasts),
    ("box_store_1d box_store_2d box_store_3d box_store_4d box_store_5d", Sm90a, boxes::stores),
    ("clusters", Sm90a, moves::clusters),
    ("registers_and_elections", Sm90a, moves::registers),
    ("wgmma_n8_f16 wgmma_n24_f16 wgmma_n64_f16 wgmma_n104_f16 wgmma_n128_f16", Sm90a, products::of_group),
    (
        "wgmma_n176_f16 wgmma_n256_f16 wgmma_n16_bf16 wgmma_n72_bf16 wgmma_n192_bf16",
        Sm90a,
        products::of_group,
    ),
    ("wgmma_n248_bf16 wgmma_n32_f16_64b wgmma_n96_bf16_64b wgmma_n40_bf16_32b", Sm90a, products::of_group),
    ("wgmma_n136_f16_32b wgmma_n48_f16_none wgmma_n160_bf16_none", Sm90a, products::of_group),
    ("wgmma_n64_f16_trans wgmma_n200_bf16_trans wgmma_n80_bf16_trans_64b", Sm90a, products::of_group),
    ("wgmma_n56_f16_trans_32b wgmma_n112_f16_trans_none wgmma_n64_bf16_trans_a", Sm90a, products::of_group),
    ("wgmma_n120_f16_trans_both_64b wgmma_n144_f16_trans_both_none", Sm90a, products::of_group),
    ("wgmma_n64_f16_registers wgmma_n240_bf16_registers wgmma_n88_f16_registers", Sm90a, products::of_group),
];

/// Opens the device, loads the probes and runs a check for each instruction and shape.
pub fn run(order: &Order, report: &mut SelftestReport) -> Result<serde_json::Value, CliError> {
    let rows = || {
        ROWS.iter().flat_map(|(names, needs, check)| names.split(' ').map(move |name| (name, needs, check)))
    };
    if !rows().any(|(entry, ..)| order.wants(entry)) {
        return Err(order.names_nothing("instruction", "without `--only` all of them run".into()));
    }
    let entries: Vec<String> = rows().map(|(entry, ..)| entry.to_string()).collect();
    let (image, _) = probe_image(&order.setup, PROBES, entries.clone())?;
    let mut device = open_device(&order.setup)?;
    let info = device.info().clone();
    let module = device.load(&image, &entries).map_err(failed)?;
    let mut probe = Probe::new(device.as_mut(), module);
    let mut lost_in = None;
    for (entry, needs, check) in rows().filter(|(entry, ..)| order.wants(entry)) {
        if let Some(why) = needs.missing(&info) {
            report.skip(entry, why);
        } else if let Some(culprit) = lost_in {
            // The driver refuses all further work of a process whose kernel has crashed, which is not the other rows' fault.
            report.skip(
                entry,
                &format!("the device was lost in `{culprit}`: run this one with --only {entry}"),
            );
        } else {
            probe.entry = entry;
            probe.numbers = ChaCha8Rng::seed_from_u64(order.seed);
            report.add(entry, check(&mut probe));
            lost_in = probe.is_lost.then_some(entry);
        }
    }
    Ok(serde_json::to_value(info)?)
}
