//! Modules and launches: a launch plan's numbers and attributes handed to `cuLaunchKernelEx`.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr;

use cudarc::driver::sys::{self, CUfunction_attribute_enum as Attribute, CUlaunchAttributeID_enum as Id};
use evo_protocol::device::{DeviceError, EntryAttributes};
use evo_protocol::verdict::VerdictKind;
use object::SymbolKind;

use super::driver::check;
use super::memory::GuardedMemory;
use super::persistence::WindowLimits;
use super::support::Support;
use super::tensor_map::EncodedMaps;
use super::variables::DeviceVariables;
use crate::binary_notes;
use crate::device::{BoundArgument, BoundLaunch, BoundWindow};
use crate::tensor_maps::ArgumentSlot;
use crate::variables::{VariablePlace, symbols};

/// Static plus dynamic shared memory above this needs an explicit opt-in.
const SHARED_DEFAULT_BYTES: u32 = 48 << 10;

pub struct CudaModule {
    entries: HashMap<String, CudaFunction>,
    pub variables: DeviceVariables,
    handle: LoadedModule,
}

/// Unloaded when dropped.
struct LoadedModule(sys::CUmodule);

struct CudaFunction {
    function: sys::CUfunction,
    shared_optin: u32,
}

impl CudaModule {
    /// Entry points are found by the symbols listed with the cubin, or by plain or mangled name.
    pub fn load(binary: &[u8], entries: &[String], support: &Support) -> Result<CudaModule, DeviceError> {
        let mut handle = ptr::null_mut();
        // SAFETY: the image is a whole cubin (the driver checks its header); a context is current.
        unsafe {
            check(sys::cuModuleLoadData(&mut handle, binary.as_ptr().cast::<c_void>()), "cannot load")?;
        }
        let handle = LoadedModule(handle);
        let functions = symbols(binary, SymbolKind::Text, |_, _| true);
        let function = |name: &String| {
            let symbol = binary_notes::symbol_of(binary, name).unwrap_or(name);
            let function = handle.function(symbol, &functions)?;
            Ok((name.clone(), CudaFunction { function, shared_optin: SHARED_DEFAULT_BYTES }))
        };
        let entries = entries.iter().map(function).collect::<Result<_, DeviceError>>()?;
        Ok(CudaModule { variables: DeviceVariables::of(handle.0, binary, support)?, entries, handle })
    }

    pub fn echo(&self) -> Result<Option<String>, DeviceError> {
        let (mut pointer, mut bytes) = (0, 0);
        // SAFETY: the name is NUL-terminated; pointers are to live locals; the copy is as long as the
        // symbol.
        unsafe {
            let name = c"evo_variant_hash".as_ptr();
            let result = sys::cuModuleGetGlobal_v2(&mut pointer, &mut bytes, self.handle.0, name);
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

    pub fn unload(mut self) -> Result<(), DeviceError> {
        self.handle.unload()
    }
}

impl LoadedModule {
    fn function(&self, name: &str, known: &[VariablePlace]) -> Result<sys::CUfunction, DeviceError> {
        // Kernels without `extern "C"` have a mangled name, which begins like this whatever their arguments
        // are.
        let mangled = format!("_Z{}{name}", name.len());
        let mangled = known.iter().map(|own| own.symbol.as_str()).filter(|own| own.starts_with(&mangled));
        for symbol in std::iter::once(name).chain(mangled) {
            let Ok(text) = CString::new(symbol) else { continue };
            let mut function = ptr::null_mut();
            // SAFETY: the module is loaded; the pointer is to a live local.
            let found = unsafe { sys::cuModuleGetFunction(&mut function, self.0, text.as_ptr()) };
            if found != sys::CUresult::CUDA_ERROR_NOT_FOUND {
                return check(found, "cannot look up an entry").map(|()| function);
            }
        }
        let known: Vec<&str> = known.iter().map(|own| own.symbol.as_str()).collect();
        let text = format!("entry `{name}` is not in the module; it has {}", known.join(", "));
        Err(DeviceError::plain(VerdictKind::LoadError, text).with_cause("symbol"))
    }

    fn unload(&mut self) -> Result<(), DeviceError> {
        match std::mem::replace(&mut self.0, ptr::null_mut()) {
            module if module.is_null() => Ok(()),
            // SAFETY: the handle is unloaded once, since it is not there any more.
            module => unsafe { check(sys::cuModuleUnload(module), "cannot unload") },
        }
    }
}

impl Drop for LoadedModule {
    fn drop(&mut self) {
        // Nobody is left to tell, and the end of the process frees modules in any case.
        let _ = self.unload();
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
