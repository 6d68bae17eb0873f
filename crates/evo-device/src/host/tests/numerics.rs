//! Conversions of halves as they are where the processor has no instructions for them, against the `half` crate.

use half::f16;

use super::*;

/// Every half, the midpoints between neighbors, and their neighbors in float.
fn hard_floats() -> Vec<f32> {
    let mut floats = Vec::new();
    for bits in 0..0x7fffu16 {
        let (low, high) = (f16::from_bits(bits).to_f32(), f16::from_bits(bits + 1).to_f32());
        let middle = ((f64::from(low) + f64::from(high)) / 2.0) as f32;
        for float in [low, middle, middle.next_up(), middle.next_down()] {
            floats.extend([float, -float]);
        }
    }
    floats.extend([f32::INFINITY, f32::MAX, 65_519.99, 65_520.0, f32::MIN_POSITIVE, 1e-45]);
    floats.retain(|float| !float.is_nan());
    floats
}

#[test]
fn the_conversions_without_instructions_round_the_same() {
    // The two formulas that are used where the processor has no conversion instructions.
    let soft = super::super::headers::HEADER.replace("defined(__F16C__)", "0");
    let input = hard_floats();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("evo_cuda.h"), soft).unwrap();
    let text = "#include \"evo_cuda.h\"\nextern \"C\" __attribute__((visibility(\"default\"))) void narrow(const float* x, unsigned short* y, float* z, long n) {\n\
                for (long i = 0; i < n; i++) { y[i] = evo_float_to_half(x[i]); z[i] = evo_half_to_float(y[i]); } }";
    let (unit, library) = (folder.path().join("u.cpp"), folder.path().join("u.so"));
    std::fs::write(&unit, text).unwrap();
    let mut command = Command::new("c++");
    command.args(translate::flags()).arg("-I").arg(folder.path()).arg("-o").arg(&library).arg(&unit);
    assert!(command.status().unwrap().success());
    let (mut narrow, mut wide) = (vec![0u16; input.len()], vec![0f32; input.len()]);
    // SAFETY: the library holds the function above, whose buffers have `input.len()` elements each.
    unsafe {
        let library = libloading::Library::new(&library).unwrap();
        type Narrow = unsafe extern "C" fn(*const f32, *mut u16, *mut f32, i64);
        let function = library.get::<Narrow>(b"narrow\0").unwrap();
        function(input.as_ptr(), narrow.as_mut_ptr(), wide.as_mut_ptr(), input.len() as i64);
    }
    for ((float, narrow), wide) in input.iter().zip(narrow).zip(wide) {
        assert_eq!(f16::from_f32(*float).to_bits(), narrow, "{float:e}");
        assert_eq!(f16::from_bits(narrow).to_f32(), wide, "{float:e}");
    }
}
