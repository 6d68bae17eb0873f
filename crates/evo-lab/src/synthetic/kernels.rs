//! Synthetic spaces that behave as kernels do: tiles that are products, an occupancy that comes in stairs,
//! resources that run out, launches that fail.

use evo_protocol::verdict::VerdictClass;

use super::point::{Definition, Losses, Point, excess, list, octaves, shortage, unless};

/// Registers of one multiprocessor, and its warps.
const REGISTERS: f64 = 65_536.0;
const WARPS: f64 = 64.0;

/// A matrix product: what matters are products of parameters, and the occupancy comes in stairs.
pub(super) const MATRIX_TILES: Definition = Definition {
    name: "matrix_tiles",
    about: "products of parameters decide, the occupancy comes in stairs",
    text: matrix_tiles,
    planted: || "32 8 12 6 16 4 3 xor 3 z 4 true".to_string(),
    losses: matrix_tiles_losses,
};

fn matrix_tiles() -> String {
    format!(
        "constraints = [
            '32 <= block_x * block_y <= 1024',
            'block_x * block_y % 32 == 0',
            'block_x * work_n % vector == 0',
            'depth % unroll == 0',
            '4 * stages * depth * (block_x * work_n + block_y * work_m) <= 101376',
        ]
        [parameters]
        block_x = {{ values = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024], default = 8 }}
        block_y = {{ values = [1, 2, 4, 8, 16, 32, 64], default = 4 }}
        work_m = {work}
        work_n = {work}
        depth = {depth}
        vector = [1, 2, 4, 8]
        stages = [1, 2, 3, 4, 5, 6]
        swizzle = ['none', 'pad', 'xor']
        split = {work}
        order = ['row', 'column', 'z']
        unroll = [1, 2, 4, 8, 16]
        preload = [false, true]\n",
        work = list(1, 16, 1),
        depth = list(8, 128, 8),
    )
}

fn matrix_tiles_losses(point: &Point) -> Losses {
    let [block_x, block_y] = point.numbers(["block_x", "block_y"]);
    let [work_m, work_n] = point.numbers(["work_m", "work_n"]);
    let [depth, stages, vector] = point.numbers(["depth", "stages", "vector"]);
    let threads = block_x * block_y;
    let registers = work_m * work_n + work_m + work_n + 24.0;
    // Only whole blocks are resident, which is what makes the stairs.
    let blocks = (REGISTERS / (registers * threads)).floor();
    let occupancy = (blocks * threads / 32.0 / WARPS).min(1.0);
    // Rows that fill all 32 banks put a column into one bank.
    let unpadded = if block_x * vector % 32.0 == 0.0 { 0.35 } else { 0.1 };
    let conflict =
        if point.is("swizzle", "none") { unpadded } else { unless(point.is("swizzle", "xor"), 0.04) };
    let order = unless(point.is("order", "z"), if point.is("order", "row") { 0.08 } else { 0.15 });
    Ok(vec![
        0.25 * octaves(block_y * work_m, 96.0),
        0.25 * octaves(block_x * work_n, 192.0),
        0.1 * octaves(work_m / work_n, 2.0),
        4.0 * shortage(occupancy, 0.25),
        // Beyond this, registers spill.
        unless(registers <= 168.0, 0.5) + excess(registers, 168.0) / 64.0,
        0.12 * octaves(vector, 4.0),
        0.2 * octaves(stages * depth, 48.0),
        0.03 * (stages - 3.0).abs(),
        conflict,
        0.1 * octaves(point.number("split"), 3.0),
        order,
        0.04 * octaves(point.number("unroll"), 4.0),
        // Loading ahead pays if there is a stage to load into.
        unless((point.number("preload") == 1.0) == (stages >= 3.0), 0.06),
    ])
}

/// Resources that no constraint knows run out, and the best point is next to where they do.
pub(super) const HIDDEN_LIMITS: Definition = Definition {
    name: "hidden_limits",
    about: "no constraint tells what fails, and the optimum is next to it",
    text: hidden_limits,
    planted: || "192 12 32 44 14 2 4 mixed true blocked 3 2".to_string(),
    losses: hidden_limits_losses,
};

fn hidden_limits() -> String {
    format!(
        "constraints = [
            'items % vector == 0',
            'threads * tile <= 16384',
            'tile * split <= 96',
        ]
        [parameters]
        threads = {threads}
        items = {items}
        tile = {tile}
        cache_kib = {cache}
        unroll = {unroll}
        vector = [1, 2, 4, 8]
        prefetch = {prefetch}
        precision = ['double', 'single', 'mixed']
        fast = [false, true]
        layout = ['rows', 'columns', 'blocked', 'morton']
        split = {split}
        pipeline = [1, 2, 3, 4, 5]\n",
        threads = list(32, 1024, 32),
        items = list(1, 24, 1),
        tile = list(1, 32, 1),
        cache = list(0, 64, 4),
        unroll = list(1, 16, 1),
        prefetch = list(0, 8, 1),
        split = list(1, 12, 1),
    )
}

fn hidden_limits_losses(point: &Point) -> Losses {
    let [threads, items, tile, cache] = point.numbers(["threads", "items", "tile", "cache_kib"]);
    let [unroll, prefetch, pipeline] = point.numbers(["unroll", "prefetch", "pipeline"]);
    let [vector, split] = point.numbers(["vector", "split"]);
    let wide = if point.is("precision", "double") { 2.0 } else { 1.0 };
    let registers = 24.0 + wide * items * unroll + 8.0 * prefetch;
    // In the order of a real variant's life: the compiler fails before the launch can.
    if registers > 232.0 {
        return Err(VerdictClass::Compile);
    }
    let shared = 1024.0 * cache + 4.0 * wide * pipeline * threads * tile;
    if shared > 101_376.0 {
        return Err(VerdictClass::Launch);
    }
    let precision = unless(point.is("precision", "mixed"), 0.1 * wide);
    let vectors = if point.is("layout", "morton") { 0.0 } else { 0.1 * octaves(vector, 1.0) };
    let layout = unless(point.is("layout", "blocked"), 0.05 + vectors);
    Ok(vec![
        // More work per thread is better, and more cache, up to what there is.
        0.3 * octaves(items * unroll, 168.0),
        0.15 * octaves(threads * tile, 6144.0),
        0.1 * octaves(threads, 192.0),
        0.006 * (cache - 44.0).abs(),
        0.05 * (prefetch - 4.0).abs(),
        0.08 * (pipeline - 2.0).abs(),
        0.08 * octaves(vector, 2.0),
        0.02 * (unroll - 14.0).abs(),
        0.12 * octaves(split, 3.0),
        precision,
        unless(point.number("fast") == 1.0, 0.07),
        layout,
    ])
}

/// Thirty parameters of which eight matter; more points than 64 bits count.
pub(super) const MOSTLY_IRRELEVANT: Definition = Definition {
    name: "mostly_irrelevant",
    about: "22 of 30 parameters do nothing",
    text: mostly_irrelevant,
    planted: || ["64 4 6 48 16 2 10 true", &["3"; 22].join(" ")].join(" "),
    losses: mostly_irrelevant_losses,
};

fn mostly_irrelevant() -> String {
    let idle: String = (1..=22).map(|number| format!("idle_{number} = {}\n", list(0, 13, 1))).collect();
    format!(
        "constraints = [
            '64 <= block_x * block_y <= 1024',
            'block_x * work * 4 * width <= 65536',
            'depth % step == 0',
            'idle_1 + idle_2 + idle_3 <= 30',
            'idle_4 >= idle_5 or idle_6 > 2',
        ]
        [parameters]
        block_x = [16, 32, 48, 64, 96, 128, 192, 256, 384, 512]
        block_y = {{ values = [1, 2, 3, 4, 6, 8, 12, 16], default = 4 }}
        work = {work}
        depth = {depth}
        width = [1, 2, 4, 8, 16, 32]
        step = [1, 2, 4, 8]
        chunk = {chunk}
        streams = [false, true]
        {idle}",
        work = list(1, 12, 1),
        depth = list(8, 96, 8),
        chunk = list(1, 20, 1),
    )
}

fn mostly_irrelevant_losses(point: &Point) -> Losses {
    let [block_x, block_y, work, depth] = point.numbers(["block_x", "block_y", "work", "depth"]);
    let [width, step, chunk] = point.numbers(["width", "step", "chunk"]);
    let rows = 64.0 * width;
    Ok(vec![
        0.3 * octaves(block_x * work, 384.0),
        0.2 * octaves(block_x * block_y, 256.0),
        0.1 * octaves(work, 6.0),
        0.2 * octaves(depth * width, 768.0),
        0.08 * octaves(width, 16.0),
        0.05 * octaves(step, 2.0),
        // Two weak effects: a chunk of 10 is best, and fewer than 512 rows cost extra.
        0.04 * (chunk - 10.0).abs() + unless(rows >= 512.0, 0.2),
        unless(point.number("streams") == 1.0 || depth < 24.0, 0.1),
    ])
}
