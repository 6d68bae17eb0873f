//! Helper kernels on the device, called from here: guard checks, hashes, pattern counts, comparison.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr;

use cudarc::driver::sys;
use evo_protocol::device::DeviceError;
use evo_protocol::dtype::DType;

use super::buffer::{Buffer, ZoneTable};
use super::driver::{self, check};
use crate::device::trouble;

pub const SUPPORT_SOURCE: &str = include_str!("support.cu");

const BLOCK: u32 = 256;
pub const BLOCKS_MAX: u64 = 1056;
/// Blocks that share a guard zone: 16 bytes a thread.
const ZONE_BLOCKS: u32 = 16;
/// Most cycles that a block of the delaying kernel spins: some tens of microseconds.
const DELAY_CYCLES: u32 = 40_000;
const AREA_BYTES: usize = 1 << 17;

pub struct Support {
    stream: sys::CUstream,
    functions: HashMap<&'static str, sys::CUfunction>,
    results: sys::CUdeviceptr,
}

const NAMES: &str = "evo_smear evo_delay evo_check_zones evo_fill_zones evo_hash evo_heap_left evo_count evo_compare \
                     evo_blocks";

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
            for name in NAMES.split(' ') {
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
        self.count("evo_hash", blocks(bytes / 4), &[arg(&data), arg(&bytes)])
    }

    /// How many blocks of 4 KiB the device heap can still give, after all work enqueued before: 1,888 where nobody has
    /// any, counted in 0.2 s. Kernels that give everything back never change it (H100, driver 580).
    pub fn heap_left(&self) -> Result<u64, DeviceError> {
        self.count("evo_heap_left", 1, &[])
    }

    /// What each block of a kernel finds that compares elements with answers.
    pub fn parts<T: Copy + Default>(
        &self,
        name: &str,
        grid: u32,
        (actual, dtype): (&Buffer, DType),
        expected: &Buffer,
        rest: &[*mut c_void],
    ) -> Result<Vec<T>, DeviceError> {
        let elements = actual.bytes / dtype.bytes();
        if expected.bytes < elements * 8 {
            let name = &actual.name;
            return Err(trouble(format!("`{name}` has {elements} elements, expected values fewer")));
        }
        let (a, number, e, results) = (actual.pointer(), dtype as i32, expected.pointer(), self.results);
        let first = [arg(&a), arg(&number), arg(&e), arg(&elements)];
        let mut arguments = [&first[..], rest, &[arg(&results)]].concat();
        self.launch(name, [grid, 1], &mut arguments)?;
        self.download(grid as usize)
    }

    /// One number that a kernel adds to, from 0, where its last argument points.
    pub fn count(&self, name: &str, grid: u32, arguments: &[*mut c_void]) -> Result<u64, DeviceError> {
        // SAFETY: the area is longer than that.
        unsafe { driver::upload(self.results, &[0u64], self.stream)? };
        self.launch(name, [grid, 1], &mut [arguments, &[arg(&self.results)]].concat())?;
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

pub fn arg<T>(value: &T) -> *mut c_void {
    ptr::from_ref(value).cast_mut().cast::<c_void>()
}

pub fn blocks(elements: u64) -> u32 {
    elements.div_ceil(u64::from(BLOCK)).clamp(1, BLOCKS_MAX) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for name in NAMES.split(' ') {
            assert!(SUPPORT_SOURCE.contains(&format!(" {name}(")), "{name}");
        }
    }
}
