//! Which units a kernel's machine code uses, read off its instructions.
//!
//! From sm_70 on an instruction is 16 bytes, and the lowest nine bits name the operation; three more choose a form of
//! its operands. The numbers are not documented: they were read off kernels compiled for sm_75 to sm_90a that hold one of
//! these instructions each, and a test compiles such kernels again.

use evo_protocol::words;
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSection};

const BYTES: usize = 16;
const OPERATION: u64 = 0x1ff;
const FORM: u64 = 0xe00;

/// Numbers of operations that compute, and by what.
const ARITHMETIC: [(&[u64], ArithmeticUnit); 3] = [
    // `wgmma`: HGMMA, QGMMA and IGMMA in machine code.
    (&[0x1f0, 0x1f3, 0x1f1], ArithmeticUnit::Wgmma),
    // `mma.sync`: HMMA, IMMA, DMMA.
    (&[0x03c, 0x037, 0x03f], ArithmeticUnit::Mma),
    // Products and sums of floats on cores: FFMA, FMUL, FADD, HFMA2, HMUL2, HADD2, DFMA, DMUL, DADD.
    (&[0x023, 0x020, 0x021, 0x031, 0x032, 0x030, 0x02b, 0x028, 0x029], ArithmeticUnit::Fma),
];
/// HFMA2.MMA of sm_80 and later, whose form with a constant in place of a register is how compilers set registers.
const HALVES_OF_REGISTERS: u64 = 0x200 | 0x035;
const LOADS: [(&[u64], LoadPath); 3] = [
    // Copies by the tensor memory accelerator: UTMALDG, UBLKCP.
    (&[0x1b4, 0x1ba], LoadPath::Bulk),
    // `cp.async`: LDGSTS.
    (&[0x1ae], LoadPath::Async),
    // LDG and LD.
    (&[0x181, 0x180], LoadPath::Plain),
];

words! {
    #[derive(PartialOrd, Ord)]
    ArithmeticUnit {
        None = "none",
        Fma = "fma",
        /// Tensor cores, a warp at a time.
        Mma = "mma",
        /// Tensor cores, four warps at a time.
        Wgmma = "wgmma",
    }
}

words! {
    #[derive(PartialOrd, Ord)]
    LoadPath {
        None = "none",
        Plain = "ld",
        /// Past registers, a few bytes a thread.
        Async = "cp.async",
        /// By the tensor memory accelerator.
        Bulk = "tma",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstructionUse {
    pub arithmetic: ArithmeticUnit,
    pub loads: LoadPath,
}

/// `None` where the file is not a cubin, or is for an architecture (`sm_90a`) whose instructions are not known here.
pub fn instruction_use(arch: &str, cubin: &[u8]) -> Option<InstructionUse> {
    let number: String = arch.strip_prefix("sm_")?.chars().take_while(char::is_ascii_digit).collect();
    if !(70..=90).contains(&number.parse::<u32>().ok()?) {
        return None;
    }
    let file = ElfFile64::<LittleEndian>::parse(cubin).ok()?;
    let mut used = InstructionUse { arithmetic: ArithmeticUnit::None, loads: LoadPath::None };
    for section in file.sections().filter(|own| own.name().is_ok_and(|name| name.starts_with(".text."))) {
        section.data().ok()?.chunks_exact(BYTES).for_each(|bytes| used.see(bytes));
    }
    Some(used)
}

impl InstructionUse {
    fn see(&mut self, instruction: &[u8]) {
        let low = u16::from_le_bytes([instruction[0], instruction[1]]);
        let (operation, form) = (u64::from(low) & OPERATION, u64::from(low) & (OPERATION | FORM));
        let unit = ARITHMETIC.iter().find(|(numbers, _)| numbers.contains(&operation)).map(|(_, unit)| *unit);
        let halves = (form == HALVES_OF_REGISTERS).then_some(ArithmeticUnit::Fma);
        let load = LOADS.iter().find(|(numbers, _)| numbers.contains(&operation));
        self.arithmetic = self.arithmetic.max(unit.or(halves).unwrap_or(ArithmeticUnit::None));
        self.loads = self.loads.max(load.map_or(LoadPath::None, |(_, path)| *path));
    }
}
