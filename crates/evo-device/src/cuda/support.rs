//! Helper kernels on the device, called from here: guard checks, hashes, pattern counts, comparison.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr;

use cudarc::driver::sys;
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;
use evo_protocol::verdict::VerdictKind;

use super::buffer::{Buffer, ZoneTable};
use super::driver::{self, check};
use crate::device::{BlockError, Comparison, PlainErrors, Tolerance};
use crate::numbers;

pub const SUPPORT_SOURCE: &str = include_str!("support.cu");

const BLOCK: u32 = 256;
const BLOCKS_MAX: u64 = 1056;
/// Blocks that share a guard zone: 16 bytes a thread.
const ZONE_BLOCKS: u32 = 16;
/// Most cycles that a block of the delaying kernel spins: some tens of microseconds.
const DELAY_CYCLES: u32 = 40_000;
const AREA_BYTES: usize = 1 << 17;

/// Laid out as the kernel's `Partial`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Partial {
    error_square_sum: f64,
    expected_square_sum: f64,
    error_sum: f64,
    error_dot_sum: f64,
    error_max: f64,
    error_max_index: u64,
    non_finite: u64,
    special: u64,
    mismatches: u64,
    first_bad: u64,
}

impl Partial {
    /// Without the number of elements, and without values, which are fetched when they are known to be needed.
    fn comparison(&self) -> Comparison {
        let found = |index: u64| (index != u64::MAX).then_some(index);
        Comparison {
            non_finite: self.non_finite,
            special: self.special,
            mismatches: self.mismatches,
            first_bad: found(self.first_bad),
            abs_error_max: self.error_max,
            abs_error_max_index: found(self.error_max_index).unwrap_or(0),
            error_square_sum: self.error_square_sum,
            expected_square_sum: self.expected_square_sum,
            error_sum: self.error_sum,
            error_dot_sum: self.error_dot_sum,
            ..Comparison::default()
        }
    }
}

/// Laid out as the kernel's `PlainPartial`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct PlainPartial {
    abs_max: f64,
    /// -1 where every answer is zero.
    rel_max: f64,
    not_finite: u64,
    outside: [u64; 3],
}

pub struct Support {
    stream: sys::CUstream,
    functions: HashMap<&'static str, sys::CUfunction>,
    results: sys::CUdeviceptr,
}

const NAMES: [&str; 10] = [
    "evo_smear",
    "evo_delay",
    "evo_check_zones",
    "evo_fill_zones",
    "evo_hash",
    "evo_heap_left",
    "evo_count",
    "evo_compare",
    "evo_blocks",
    "evo_plain",
];

impl Support {
    pub fn load(image: &[u8], stream: sys::CUstream) -> Result<Support, DeviceError> {
        let (mut module, mut results) = (ptr::null_mut(), 0);
        let mut functions = HashMap::new();
        // SAFETY: the image is a whole cubin; all pointers are to live locals; a context is current.
        unsafe {
            check(
                sys::cuModuleLoadData(&mut module, image.as_ptr().cast::<c_void>()),
                "cannot load the helper kernels",
            )?;
            for name in NAMES {
                let text = CString::new(name).expect("no NUL in our names");
                let mut function = ptr::null_mut();
                check(sys::cuModuleGetFunction(&mut function, module, text.as_ptr()), name)?;
                functions.insert(name, function);
            }
            check(sys::cuMemAlloc_v2(&mut results, AREA_BYTES), "cannot allocate the helpers' area")?;
        }
        Ok(Support { stream, functions, results })
    }

    pub fn fill_zones(&self, table: &ZoneTable, pattern: u32) -> Result<(), DeviceError> {
        let (count, zones) = (table.len() as u32, table.zones());
        match count {
            0 => Ok(()),
            _ => self.launch("evo_fill_zones", [count, ZONE_BLOCKS], &mut [arg(&zones), arg(&pattern)]),
        }
    }

    /// Damaged zones as (zone, first changed offset, changed bytes).
    pub fn check_zones(
        &self,
        table: &ZoneTable,
        pattern: u32,
    ) -> Result<Vec<(usize, u64, u64)>, DeviceError> {
        let (count, zones, reports, total) =
            (table.len() as u32, table.zones(), table.reports(), table.total());
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut arguments = [arg(&zones), arg(&pattern), arg(&reports), arg(&total)];
        self.launch("evo_check_zones", [count, ZONE_BLOCKS], &mut arguments)?;
        table.damaged()
    }

    /// A hash of any range that begins at a multiple of four bytes.
    pub fn hash(&self, data: sys::CUdeviceptr, bytes: u64) -> Result<u64, DeviceError> {
        let results = self.results;
        self.count("evo_hash", blocks(bytes / 4), &mut [arg(&data), arg(&bytes), arg(&results)])
    }

    /// How many blocks of 4 KiB the device heap can still give, after all work enqueued before: 1,888 where nobody has
    /// any, counted in 0.2 s. Kernels that give everything back never change it (H100, driver 580).
    pub fn heap_left(&self) -> Result<u64, DeviceError> {
        let results = self.results;
        self.count("evo_heap_left", 1, &mut [arg(&results)])
    }

    pub fn count_pattern(&self, buffer: &Buffer, dtype: DType, pattern: u32) -> Result<u64, DeviceError> {
        let (data, results) = (buffer.pointer(), self.results);
        let elements = buffer.bytes / dtype.bytes();
        // An element of eight bytes holds the pattern twice.
        let wide = u64::from(pattern) << 32 | u64::from(pattern);
        let pattern: u64 = if dtype.bytes() == 8 { wide } else { u64::from(pattern) };
        let size = dtype.bytes() as u32;
        let mut arguments = [arg(&data), arg(&elements), arg(&size), arg(&pattern), arg(&results)];
        self.count("evo_count", blocks(elements), &mut arguments)
    }

    pub fn compare(
        &self,
        actual: &Buffer,
        dtype: DType,
        expected: &Buffer,
        tolerance: Tolerance,
    ) -> Result<Comparison, DeviceError> {
        let elements = actual.bytes / dtype.bytes();
        if expected.bytes < elements * 8 {
            let text = format!("`{}` has {elements} elements, expected values fewer", actual.name);
            return Err(DeviceError::plain(VerdictKind::HarnessError, text));
        }
        let rest = [arg(&tolerance.atol), arg(&tolerance.rtol)];
        let partials: Vec<Partial> =
            self.parts("evo_compare", blocks(elements), (actual, dtype), expected, elements, &rest)?;
        let none = Comparison { elements, ..Comparison::default() };
        let mut comparison = partials.iter().fold(none, |sum, part| sum.and(&part.comparison()));
        // Fetched afterwards, so that the blocks' partial results need not carry values along.
        if let Some(index) = comparison.first_bad {
            comparison.first_bad_actual = self.element(actual, dtype, index)?;
            comparison.first_bad_expected = self.element(expected, DType::F64, index)?;
        }
        Ok(comparison)
    }

    pub fn compare_blocks(
        &self,
        actual: &Buffer,
        dtype: DType,
        expected: &Buffer,
        block: u64,
        floor: f64,
    ) -> Result<BlockError, DeviceError> {
        let (elements, block) = (actual.bytes / dtype.bytes(), block.max(1));
        let grid = elements.div_ceil(block).div_ceil(8).clamp(1, BLOCKS_MAX) as u32;
        let rest = [arg(&block), arg(&floor)];
        let parts: Vec<BlockError> =
            self.parts("evo_blocks", grid, (actual, dtype), expected, elements, &rest)?;
        Ok(parts.iter().fold(BlockError::default(), BlockError::or))
    }

    /// The errors that a plain loop finds. The first two tolerances are as large absolutely as relatively.
    pub fn plain_errors(
        &self,
        actual: &Buffer,
        dtype: DType,
        expected: &Buffer,
        [first, second, task]: [Tolerance; 3],
    ) -> Result<PlainErrors, DeviceError> {
        let elements = (actual.bytes / dtype.bytes()).min(expected.bytes / 8);
        let rest = [arg(&first.atol), arg(&second.atol), arg(&task.atol), arg(&task.rtol)];
        let parts: Vec<PlainPartial> =
            self.parts("evo_plain", blocks(elements), (actual, dtype), expected, elements, &rest)?;
        let one = |part: &PlainPartial| PlainErrors {
            elements: 0,
            abs_max: part.abs_max,
            rel_max: (part.rel_max >= 0.0).then_some(part.rel_max),
            not_finite: part.not_finite,
            outside: part.outside,
        };
        let none = PlainErrors { elements, ..PlainErrors::default() };
        Ok(parts.iter().fold(none, |seen, part| seen.and(&one(part))))
    }

    /// What each block of a kernel finds that compares elements with answers.
    fn parts<T: Copy + Default>(
        &self,
        name: &str,
        grid: u32,
        (actual, dtype): (&Buffer, DType),
        expected: &Buffer,
        elements: u64,
        rest: &[*mut c_void],
    ) -> Result<Vec<T>, DeviceError> {
        let (a, number, e, results) = (actual.pointer(), dtype as i32, expected.pointer(), self.results);
        let first = [arg(&a), arg(&number), arg(&e), arg(&elements)];
        let mut arguments = [&first[..], rest, &[arg(&results)]].concat();
        self.launch(name, [grid, 1], &mut arguments)?;
        self.download(grid as usize)
    }

    fn element(&self, buffer: &Buffer, dtype: DType, index: u64) -> Result<f64, DeviceError> {
        let mut bytes = [0u8; 8];
        let element = &mut bytes[..dtype.bytes() as usize];
        // SAFETY: the index is inside the buffer.
        unsafe { driver::download(element, buffer.pointer() + index * dtype.bytes(), self.stream)? };
        Ok(numbers::element(element, dtype))
    }

    /// One number that a kernel adds to, from 0.
    fn count(&self, name: &str, grid: u32, arguments: &mut [*mut c_void]) -> Result<u64, DeviceError> {
        // SAFETY: the area is longer than that.
        unsafe { driver::upload(self.results, &[0u64], self.stream)? };
        self.launch(name, [grid, 1], arguments)?;
        Ok(self.download::<u64>(1)?[0])
    }

    fn download<T: Copy + Default>(&self, count: usize) -> Result<Vec<T>, DeviceError> {
        let mut values = vec![T::default(); count];
        // SAFETY: callers keep within AREA_BYTES; T is plain data.
        unsafe { driver::download(&mut values, self.results, self.stream)? };
        Ok(values)
    }

    pub fn smear(&self, pattern: u32, multiprocessors: u32, shared_bytes: u64) -> Result<(), DeviceError> {
        let attribute = sys::CUfunction_attribute_enum::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: the function belongs to our loaded module.
        unsafe {
            let set = sys::cuFuncSetAttribute(self.functions["evo_smear"], attribute, shared_bytes as i32);
            check(set, "cannot ask for all shared memory")?;
        }
        let words = (shared_bytes / 4) as u32;
        // Several times as many blocks: one that ends early makes room for a second on its multiprocessor, and none must
        // be left out.
        let shape = ([4 * multiprocessors, 1], 1024, shared_bytes as u32);
        self.launch_on(self.stream, "evo_smear", shape, &mut [arg(&pattern), arg(&words)])
    }

    pub fn delay(&self, seed: u64, multiprocessors: u32, stream: sys::CUstream) -> Result<(), DeviceError> {
        let shape = ([2 * multiprocessors, 1], 512, 0);
        self.launch_on(stream, "evo_delay", shape, &mut [arg(&seed), arg(&DELAY_CYCLES)])
    }

    fn launch(&self, name: &str, grid: [u32; 2], arguments: &mut [*mut c_void]) -> Result<(), DeviceError> {
        self.launch_on(self.stream, name, (grid, BLOCK, 0), arguments)
    }

    /// The shape is blocks, threads of a block, and bytes of shared memory.
    fn launch_on(
        &self,
        stream: sys::CUstream,
        name: &str,
        ([columns, rows], threads, shared): ([u32; 2], u32, u32),
        arguments: &mut [*mut c_void],
    ) -> Result<(), DeviceError> {
        let (function, arguments) = (self.functions[name], arguments.as_mut_ptr());
        let none = ptr::null_mut();
        // SAFETY: `arguments` point to live values of the types in support.cu, in its order.
        let result = unsafe {
            sys::cuLaunchKernel(function, columns, rows, 1, threads, 1, 1, shared, stream, arguments, none)
        };
        check(result, name)
    }
}

fn arg<T>(value: &T) -> *mut c_void {
    ptr::from_ref(value).cast_mut().cast::<c_void>()
}

fn blocks(elements: u64) -> u32 {
    elements.div_ceil(u64::from(BLOCK)).clamp(1, BLOCKS_MAX) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_without_errors_names_no_element() {
        let quiet = Partial { error_max_index: u64::MAX, first_bad: u64::MAX, ..Partial::default() };
        let loud = Partial { error_max: 2.0, error_max_index: 7, first_bad: 7, ..quiet };
        let found = [quiet, loud].map(|part| part.comparison());
        assert_eq!(found[0], Comparison::default());
        let expected =
            Comparison { abs_error_max: 2.0, abs_error_max_index: 7, first_bad: Some(7), ..found[0].clone() };
        assert_eq!(found[1], expected);
    }

    #[test]
    fn every_data_type_has_its_case_in_the_source() {
        let names = "__half|__nv_bfloat16|float|double|signed char|short|int|long long|unsigned char|\
                     unsigned short|unsigned|u64";
        for (dtype, name) in DType::ALL.iter().zip(names.split('|')) {
            let label = match *dtype as i32 {
                11 => "default:".to_string(),
                number => format!("case {number}:"),
            };
            let mut lines = SUPPORT_SOURCE.lines().filter(|line| line.contains("data)[i]"));
            let own =
                |line: &str| line.trim().starts_with(&label) && line.contains(&format!("(const {name}*)"));
            assert!(lines.any(own), "{dtype:?}");
        }
        assert_eq!(names.split('|').count(), DType::ALL.len());
    }

    #[test]
    fn every_name_is_a_kernel_of_the_source() {
        for name in NAMES {
            assert!(SUPPORT_SOURCE.contains(&format!(" {name}(")), "{name}");
        }
    }
}
