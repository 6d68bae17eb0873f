//! Modules and launches: a launch plan's numbers and attributes handed to `cuLaunchKernelEx`.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_void};
use std::ptr;

use cudarc::driver::sys::{self, CUfunction_attribute_enum as Attribute, CUlaunchAttributeID_enum as Id};
use evo_protocol::device::{DeviceError, EntryAttributes};
use evo_protocol::verdict::VerdictKind;

use super::driver::check;
use super::memory::GuardedMemory;
use super::persistence::WindowLimits;
use super::tensor_map::EncodedMaps;
use super::variables::DeviceVariables;
use crate::binary_notes;
use crate::device::{BoundArgument, BoundLaunch, BoundWindow};
use crate::tensor_maps::ArgumentSlot;

/// Static plus dynamic shared memory above this needs an explicit opt-in.
const SHARED_DEFAULT_BYTES: u32 = 48 << 10;

pub struct CudaModule {
    handle: sys::CUmodule,
    entries: HashMap<String, CudaFunction>,
    pub variables: DeviceVariables,
}

struct CudaFunction {
    function: sys::CUfunction,
    shared_optin: u32,
}

impl CudaModule {
    /// Entry points are found by the symbols listed with the cubin, or by plain or mangled name.
    pub fn load(binary: &[u8], entries: &[String]) -> Result<CudaModule, DeviceError> {
        let mut handle = ptr::null_mut();
        // SAFETY: the image is a whole cubin (the driver checks its header); a context is current.
        unsafe {
            check(sys::cuModuleLoadData(&mut handle, binary.as_ptr().cast::<c_void>()), "cannot load")?;
        }
        let variables = DeviceVariables::of(handle, binary);
        let mut module = CudaModule { handle, entries: HashMap::new(), variables };
        for name in entries {
            let function = module.find(binary_notes::symbol_of(binary, name).unwrap_or(name))?;
            module
                .entries
                .insert(name.clone(), CudaFunction { function, shared_optin: SHARED_DEFAULT_BYTES });
        }
        Ok(module)
    }

    fn find(&self, name: &str) -> Result<sys::CUfunction, DeviceError> {
        let text = CString::new(name)
            .map_err(|_| DeviceError::plain(VerdictKind::LoadError, "an entry name contains NUL"))?;
        let mut function = ptr::null_mut();
        // SAFETY: the module is loaded; the pointer is to a live local.
        let result = unsafe { sys::cuModuleGetFunction(&mut function, self.handle, text.as_ptr()) };
        if result == sys::CUresult::CUDA_SUCCESS {
            return Ok(function);
        }
        let functions = self.functions()?;
        // Kernels without `extern "C"` have a mangled name, which begins like this whatever their arguments
        // are.
        let mangled = format!("_Z{}{name}", name.len());
        functions.iter().find(|(own, _)| own.starts_with(&mangled)).map(|(_, function)| *function).ok_or_else(
            || {
                let known: Vec<&str> = functions.iter().map(|(name, _)| name.as_str()).collect();
                let text = format!("entry `{name}` is not in the module; it has {}", known.join(", "));
                DeviceError::plain(VerdictKind::LoadError, text).with_cause("symbol")
            },
        )
    }

    fn functions(&self) -> Result<Vec<(String, sys::CUfunction)>, DeviceError> {
        let mut count = 0;
        // SAFETY: the list is as long as the count the driver gave; names are static strings of the
        // module, which outlives this function.
        unsafe {
            check(sys::cuModuleGetFunctionCount(&mut count, self.handle), "cannot count functions")?;
            let mut list = vec![ptr::null_mut(); count as usize];
            let result = sys::cuModuleEnumerateFunctions(list.as_mut_ptr(), count, self.handle);
            check(result, "cannot list functions")?;
            let name = |function: sys::CUfunction| {
                let mut text = ptr::null();
                check(sys::cuFuncGetName(&mut text, function), "cannot read a function's name")?;
                Ok((CStr::from_ptr(text).to_string_lossy().into_owned(), function))
            };
            list.into_iter().map(name).collect()
        }
    }

    pub fn echo(&self) -> Result<Option<String>, DeviceError> {
        let (mut pointer, mut bytes) = (0, 0);
        // SAFETY: the name is NUL-terminated; pointers are to live locals; the copy is as long as the
        // symbol.
        unsafe {
            let name = c"evo_variant_hash".as_ptr();
            let result = sys::cuModuleGetGlobal_v2(&mut pointer, &mut bytes, self.handle, name);
            if result == sys::CUresult::CUDA_ERROR_NOT_FOUND {
                return Ok(None);
            }
            check(result, "cannot find the variant's hash")?;
            let mut text = vec![0u8; bytes];
            let copy = sys::cuMemcpyDtoH_v2(text.as_mut_ptr().cast::<c_void>(), pointer, bytes);
            check(copy, "cannot read the variant's hash")?;
            let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
            Ok(Some(String::from_utf8_lossy(&text[..end]).into_owned()))
        }
    }

    pub fn attributes(&mut self, launch: &BoundLaunch) -> Result<EntryAttributes, DeviceError> {
        let threads = launch.block.iter().product::<u32>() as i32;
        let function = self.function(launch)?;
        let get = |attribute| attribute_of(function, attribute);
        let mut blocks = 0;
        // SAFETY: the function belongs to a loaded module; the pointer is to a live local.
        unsafe {
            let result = sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut blocks,
                function,
                threads,
                launch.shared_bytes as usize,
            );
            check(result, "cannot compute occupancy")?;
        }
        Ok(EntryAttributes {
            registers: Some(get(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)? as u32),
            shared_static_bytes: get(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)? as u64,
            local_bytes: Some(get(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)? as u64),
            threads_max: get(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)? as u32,
            blocks_per_multiprocessor: Some(blocks as u32),
        })
    }

    /// The entry's function, opted in to as much shared memory as this launch needs.
    fn function(&mut self, launch: &BoundLaunch) -> Result<sys::CUfunction, DeviceError> {
        let entry = self.entries.get_mut(&launch.entry).ok_or_else(|| {
            let text = format!("entry `{}` was not loaded", launch.entry);
            DeviceError::plain(VerdictKind::LoadError, text).with_cause("symbol")
        })?;
        let fixed = attribute_of(entry.function, Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)? as u32;
        // The attribute is an upper limit, so it is only ever raised.
        if fixed + launch.shared_bytes > entry.shared_optin {
            let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let what =
                format!("`{}` cannot have {} bytes of shared memory", launch.entry, launch.shared_bytes);
            // SAFETY: the function belongs to a loaded module.
            let result =
                unsafe { sys::cuFuncSetAttribute(entry.function, attribute, launch.shared_bytes as i32) };
            check(result, &what).map_err(|error| DeviceError {
                kind: VerdictKind::LaunchFail,
                cause: Some("smem".into()),
                ..error
            })?;
            entry.shared_optin = fixed + launch.shared_bytes;
        }
        Ok(entry.function)
    }

    pub fn launch(
        &mut self,
        launch: &BoundLaunch,
        memory: &GuardedMemory,
        maps: &mut EncodedMaps,
        (windows, stream): (WindowLimits, sys::CUstream),
    ) -> Result<(), DeviceError> {
        let function = self.function(launch)?;
        let mut values = argument_values(launch, memory, maps)?;
        let mut pointers: Vec<*mut c_void> =
            values.iter_mut().map(|value| value.0.as_mut_ptr().cast::<c_void>()).collect();
        let mut attributes = launch_attributes(launch);
        if let Some(own) = launch.l2_persist {
            let buffer = memory.get(own.buffer)?;
            attributes.extend(window(own, buffer.pointer(), windows.window(buffer.bytes)));
        }
        let config = sys::CUlaunchConfig {
            gridDimX: launch.grid[0],
            gridDimY: launch.grid[1],
            gridDimZ: launch.grid[2],
            blockDimX: launch.block[0],
            blockDimY: launch.block[1],
            blockDimZ: launch.block[2],
            sharedMemBytes: launch.shared_bytes,
            hStream: stream,
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        };
        let what = format!("cannot launch `{}`", launch.entry);
        // SAFETY: argument values, attributes and config live through the call, which copies them; the
        // count of arguments is the plan's, checked against the kernel's signature by the launch gate.
        unsafe {
            let result = sys::cuLaunchKernelEx(&config, function, pointers.as_mut_ptr(), ptr::null_mut());
            check(result, &what)
        }
    }

    pub fn unload(self) -> Result<(), DeviceError> {
        // SAFETY: the handle is unloaded once, since `self` is consumed.
        unsafe { check(sys::cuModuleUnload(self.handle), "cannot unload") }
    }
}

fn attribute_of(function: sys::CUfunction, attribute: Attribute) -> Result<i32, DeviceError> {
    let mut value = 0;
    // SAFETY: the function belongs to a loaded module; the pointer is to a live local.
    unsafe {
        check(sys::cuFuncGetAttribute(&mut value, attribute, function), "cannot read an attribute")?;
    }
    Ok(value)
}

/// Tensor maps are those of the addresses that buffers have now.
fn argument_values(
    launch: &BoundLaunch,
    memory: &GuardedMemory,
    maps: &mut EncodedMaps,
) -> Result<Vec<ArgumentSlot>, DeviceError> {
    let value = |argument: &BoundArgument| match argument {
        BoundArgument::Buffer(id) => Ok(ArgumentSlot::word(memory.kernel_pointer(*id)?)),
        BoundArgument::Scalar(bytes) => {
            let mut wide = [0u8; 8];
            wide[..bytes.len().min(8)].copy_from_slice(&bytes[..bytes.len().min(8)]);
            Ok(ArgumentSlot::word(u64::from_le_bytes(wide)))
        }
        BoundArgument::TensorMap { buffer, map } => {
            maps.get(map, memory.kernel_pointer(*buffer)?, memory.get(*buffer)?.bytes)
        }
    };
    launch.arguments.iter().map(value).collect()
}

fn launch_attributes(launch: &BoundLaunch) -> Vec<sys::CUlaunchAttribute> {
    let mut attributes = Vec::new();
    let mut add = |id, value| attributes.push(sys::CUlaunchAttribute { id, pad: [0; 4], value });
    if let Some([x, y, z]) = launch.cluster {
        let dimension = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
        add(Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, sys::CUlaunchAttributeValue { clusterDim: dimension });
    }
    if launch.cooperative {
        add(Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, sys::CUlaunchAttributeValue { cooperative: 1 });
    }
    if launch.programmatic {
        let value = sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 };
        add(Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, value);
    }
    attributes
}

fn window(own: BoundWindow, address: u64, bytes: Option<u64>) -> Option<sys::CUlaunchAttribute> {
    let window = sys::CUaccessPolicyWindow_st {
        base_ptr: address as *mut c_void,
        num_bytes: bytes? as usize,
        hitRatio: own.ratio,
        hitProp: sys::CUaccessProperty::CU_ACCESS_PROPERTY_PERSISTING,
        // Accesses beyond the share pass through, so that they do not evict what is kept.
        missProp: sys::CUaccessProperty::CU_ACCESS_PROPERTY_STREAMING,
    };
    let value = sys::CUlaunchAttributeValue { accessPolicyWindow: window };
    Some(sys::CUlaunchAttribute { id: Id::CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, pad: [0; 4], value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::BufferId;

    #[test]
    fn a_window_is_an_attribute_of_its_launch_alone() {
        let own = BoundWindow { buffer: BufferId(3), ratio: 0.25 };
        assert!(window(own, 0x1000, None).is_none());
        let attribute = window(own, 0x1000, Some(4096)).unwrap();
        assert_eq!(attribute.id, Id::CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW);
        // SAFETY: the attribute was made with this member of the union.
        let window = unsafe { attribute.value.accessPolicyWindow };
        assert_eq!((window.base_ptr as u64, window.num_bytes, window.hitRatio), (0x1000, 4096, 0.25));
        assert_eq!(window.hitProp, sys::CUaccessProperty::CU_ACCESS_PROPERTY_PERSISTING);
        assert_eq!(window.missProp, sys::CUaccessProperty::CU_ACCESS_PROPERTY_STREAMING);
    }
}
