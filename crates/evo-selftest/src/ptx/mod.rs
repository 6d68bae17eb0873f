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

use self::moves::{permuted, turned};
use self::probe::Probe;
use crate::order::{Order, failed};

const PROBES: &str = concat!(include_str!("probes.cu"), include_str!("hopper.cu"));

/// Why a check that needs an architecture cannot run on this device; the host device has everything.
fn missing(needs: &str, info: &DeviceInfo) -> Option<String> {
    let number = |arch: &str| arch.trim_start_matches("sm_").trim_end_matches(['a', 'f']).parse::<u32>().ok();
    let is_below = number(&info.arch).is_some_and(|own| number(needs).is_some_and(|least| own < least));
    let lacks = if needs.ends_with('a') { info.arch != needs } else { is_below };
    (info.kind == DeviceKind::Cuda && lacks).then(|| format!("it needs {needs}"))
}

const SM80: &str = "sm_80";
const SM90: &str = "sm_90";
const SM90A: &str = "sm_90a";

type Check = fn(&mut Probe<'_>) -> Result<String, String>;

/// Entry points, what they need, and what is compared; a check has its extents from the name.
const ROWS: &[(&str, &str, Check)] = &[
    ("mma_k16_f16_f32 mma_k16_bf16_f32 mma_k16_f16_f16", SM80, products::of_warp),
    ("mma_k8_f16_f32 mma_k8_bf16_f32 mma_k8_f16_f16", SM80, products::of_warp),
    ("load_x1 load_x2 load_x4 load_x1_trans load_x2_trans load_x4_trans", SM80, moves::loads),
    ("store_x1 store_x2 store_x4 store_x1_trans store_x2_trans store_x4_trans", SM90, moves::stores),
    ("copy_ca_4 copy_ca_8 copy_ca_16 copy_cg_16 copy_cg_16_l2", SM80, moves::copies),
    ("copy_ca_4_zfill copy_ca_8_zfill copy_ca_16_zfill copy_cg_16_zfill", SM80, moves::copies),
    ("copy_groups", SM80, |probe| {
        permuted(probe, [32, 9 * 128], "9 steps of a ring of 3 stages", |at| turned(at, 32))
    }),
    ("named_barriers", SM80, |probe| {
        let what = "8 rounds of two writing and two reading warps";
        permuted(probe, [128, 8 * 64], what, |at| at / 64 * 64 + 63 - at % 64)
    }),
    ("exponentials", SM80, numbers::exponentials),
    ("packs", SM80, numbers::packs),
    ("unpacks", SM80, numbers::unpacks),
    ("reductions", SM80, numbers::reductions),
    // A ring of stages that one warp fills and three warps read.
    ("bulk_ring", SM90A, |probe| {
        permuted(probe, [128, 11 * 128], "11 steps of a ring of 3 stages", |at| turned(at, 32))
    }),
    // Of a tile that threads have turned around.
    ("bulk_stores", SM90A, |probe| {
        permuted(probe, [64, 256], "words of a tile, to the bit", |at| turned(at, 64))
    }),
    ("box_load_1d box_load_2d box_load_3d box_load_4d box_load_5d", SM90A, boxes::loads),
    ("box_multicast_2d", SM90A, boxes::multicasts),
    ("box_store_1d box_store_2d box_store_3d box_store_4d box_store_5d", SM90A, boxes::stores),
    ("clusters", SM90A, moves::clusters),
    ("registers_and_elections", SM90A, moves::registers),
    ("wgmma_n8_f16 wgmma_n24_f16 wgmma_n64_f16 wgmma_n104_f16 wgmma_n128_f16", SM90A, products::of_group),
    (
        "wgmma_n176_f16 wgmma_n256_f16 wgmma_n16_bf16 wgmma_n72_bf16 wgmma_n192_bf16",
        SM90A,
        products::of_group,
    ),
    ("wgmma_n248_bf16 wgmma_n32_f16_64b wgmma_n96_bf16_64b wgmma_n40_bf16_32b", SM90A, products::of_group),
    ("wgmma_n136_f16_32b wgmma_n48_f16_none wgmma_n160_bf16_none", SM90A, products::of_group),
    ("wgmma_n64_f16_trans wgmma_n200_bf16_trans wgmma_n80_bf16_trans_64b", SM90A, products::of_group),
    ("wgmma_n56_f16_trans_32b wgmma_n112_f16_trans_none wgmma_n64_bf16_trans_a", SM90A, products::of_group),
    ("wgmma_n120_f16_trans_both_64b wgmma_n144_f16_trans_both_none", SM90A, products::of_group),
    ("wgmma_n64_f16_registers wgmma_n240_bf16_registers wgmma_n88_f16_registers", SM90A, products::of_group),
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
        if let Some(why) = missing(needs, &info) {
            report.skip(entry, &why);
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
