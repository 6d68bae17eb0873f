//! A variant run by nobody but itself: loaded into a device of this process, given inputs of its own, launched once, and its
//! outputs compared with plain loops. Of what the gates use, it uses the device and how a launch gets its arguments.

use std::collections::BTreeMap;
use std::error::Error;

use evo::supervise::job::Job;
use evo::worker::judge::bind;
use evo_device::device::{Device, ModuleId};
use evo_protocol::dtype::DType;
use evo_protocol::plan::{BufferPlan, Fill, ProblemPlan, Role};
use half::f16;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;

use super::loops;

/// What workspaces and outputs hold before the launch, each byte.
const LITTER: u8 = 0xA5;

/// How all outputs are within their bounds.
#[derive(Debug, Default)]
pub struct Agreement {
    pub elements: u64,
    /// The largest share of a bound.
    pub worst: f64,
}

impl Agreement {
    pub fn add(&mut self, other: Agreement) {
        self.elements += other.elements;
        self.worst = self.worst.max(other.worst);
    }
}

/// The error says what is wrong, or why it could not be run.
pub fn judge(
    device: &mut dyn Device,
    kernel: &str,
    job: &Job,
    seed: u64,
) -> Result<Agreement, Box<dyn Error>> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut all = Agreement::default();
    let checked = job.all_checked();
    for build in &job.candidate.builds {
        let path = build.binary.path.as_ref().ok_or("a compiled variant has no file")?;
        let module = device.load(&std::fs::read(path)?, &build.entries)?;
        let plans = checked.iter().chain(&job.tiny).chain(&job.several);
        let compared = plans
            .filter(|plan| build.constants.serves(&plan.sizes))
            .try_for_each(|plan| run(device, module, kernel, plan, &mut random).map(|own| all.add(own)));
        device.unload(module)?;
        compared?;
    }
    Ok(all)
}

fn run(
    device: &mut dyn Device,
    module: ModuleId,
    kernel: &str,
    plan: &ProblemPlan,
    random: &mut ChaCha8Rng,
) -> Result<Agreement, Box<dyn Error>> {
    let mut inputs: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let mut buffers = Vec::new();
    for buffer in &plan.buffers {
        let (values, bytes) = contents(buffer, random)?;
        let allocated = device.allocate(&buffer.name, bytes.len() as u64)?;
        device.write(allocated, &bytes)?;
        buffers.push(allocated);
        inputs.insert(&buffer.name, values);
    }
    let launched = device.launch(module, &bind(&plan.launches, &buffers, plan)?);
    let compared = launched.and_then(|()| device.synchronize()).map_err(Box::from).and_then(|()| {
        let answer = loops::answer(kernel, &inputs, &plan.sizes, random)
            .ok_or_else(|| format!("nobody wrote plain loops for the kernel `{kernel}`"))?;
        let output = plan.buffers.iter().position(|buffer| buffer.role == Role::Output);
        let output = output.ok_or_else(|| format!("`{}` has no output", plan.name))?;
        let bytes = device.read(buffers[output])?;
        let output = &plan.buffers[output];
        let actual = decode(&bytes[..output.bytes() as usize], output.dtype)?;
        Ok(compare(&plan.name, &actual, &answer)?)
    });
    buffers.into_iter().try_for_each(|buffer| device.free(buffer))?;
    compared
}

fn compare(name: &str, actual: &[f64], answer: &loops::PlainAnswer) -> Result<Agreement, String> {
    if actual.len() != answer.total {
        let (have, want) = (actual.len(), answer.total);
        return Err(format!("`{name}`: {have} elements where the loops give {want}"));
    }
    let mut agreement = Agreement { elements: answer.places.len() as u64, worst: 0.0 };
    for (number, &index) in answer.places.iter().enumerate() {
        let (value, exact, bound) = (actual[index], answer.values[number], answer.bounds[number]);
        let error = (value - exact).abs();
        // A NaN is not within anything.
        let is_within = error <= bound;
        if !is_within {
            return Err(format!(
                "`{name}`: element {index} is {value:e}, plain loops give {exact:e} ± {bound:.1e}"
            ));
        }
        if bound > 0.0 {
            agreement.worst = agreement.worst.max(error / bound);
        }
    }
    Ok(agreement)
}

/// Values of an input and the bytes of any buffer. Values are uniform between −0.5 and 1.5: none is special, both signs
/// occur, and a sum grows with its length, so that a missing term shows.
fn contents(buffer: &BufferPlan, random: &mut ChaCha8Rng) -> Result<(Vec<f64>, Vec<u8>), String> {
    let elements = buffer.elements() as usize;
    // An empty buffer is passed as one element.
    let bytes = buffer.bytes().max(buffer.dtype.bytes()) as usize;
    if buffer.role != Role::Input {
        let fill = match buffer.fill {
            Fill::Constant { value: 0.0 } => 0,
            Fill::Constant { .. } => return Err(format!("`{}` starts with a constant", buffer.name)),
            _ => LITTER,
        };
        return Ok((Vec::new(), vec![fill; bytes]));
    }
    let mut encoded = Vec::with_capacity(bytes);
    for _ in 0..elements {
        let drawn = random.random_range(-0.5f32..1.5);
        match buffer.dtype {
            DType::F32 => encoded.extend(drawn.to_le_bytes()),
            DType::F16 => encoded.extend(f16::from_f32(drawn).to_le_bytes()),
            other => return Err(format!("no input of type `{}` is drawn here", other.as_str())),
        }
    }
    // As the kernel reads them.
    let values = decode(&encoded, buffer.dtype)?;
    encoded.resize(bytes, 0);
    Ok((values, encoded))
}

fn decode(bytes: &[u8], dtype: DType) -> Result<Vec<f64>, String> {
    Ok(match dtype {
        DType::F32 => bytes.as_chunks().0.iter().map(|four| f64::from(f32::from_le_bytes(*four))).collect(),
        DType::F16 => bytes.as_chunks().0.iter().map(|two| f16::from_le_bytes(*two).to_f64()).collect(),
        other => return Err(format!("no buffer of type `{}` is read here", other.as_str())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_element_beyond_its_bound_is_named() {
        let answer = loops::PlainAnswer {
            places: vec![0, 1, 2],
            values: vec![1.0, 2.0, 3.0],
            bounds: vec![0.1, 0.1, 0.0],
            total: 3,
        };
        let of = |actual: &[f64]| compare("p", actual, &answer);
        let right = of(&[1.05, 2.0, 3.0]).unwrap();
        assert_eq!(right.elements, 3);
        assert!((right.worst - 0.5).abs() < 1e-9);
        assert!(of(&[1.0, 2.2, 4.0]).unwrap_err().contains("element 1 is 2.2e0"));
        assert!(of(&[1.0, 2.0, 3.0 + 1e-12]).is_err(), "a bound of 0 is exact");
        assert!(of(&[f64::NAN, 2.0, 3.0]).is_err());
        assert!(of(&[1.0, 2.0]).unwrap_err().contains("2 elements where the loops give 3"));
        let some = loops::PlainAnswer { places: vec![2], values: vec![3.0], bounds: vec![0.0], total: 3 };
        assert_eq!(compare("p", &[9.0, 9.0, 3.0], &some).unwrap().elements, 1);
        assert!(compare("p", &[3.0, 3.0, 9.0], &some).unwrap_err().contains("element 2 is 9e0"));
    }
}
