//! What of an output is compared with its answer, where that is not every element in its place.

use serde::{Deserialize, Serialize};

/// The elements of an output that an answer says something about, and what is compared of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputView {
    /// One range for each extent, outermost first. Elements outside of any of them are not looked at.
    pub region: Vec<AxisRange>,
    pub form: ComparedForm,
    /// The axis along which they are sorted or added up; without one all of them are, together.
    pub axis: Option<usize>,
}

/// Positions along one axis: `first`, `first + step`, …, `count` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AxisRange {
    pub first: u64,
    pub count: u64,
    pub step: u64,
}

impl AxisRange {
    pub fn all(extent: u64) -> AxisRange {
        AxisRange { first: 0, count: extent, step: 1 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ComparedForm {
    Elements,
    /// Each element, in ascending order: which place holds which one is free.
    Sorted,
    Sum,
}

impl OutputView {
    pub fn shape(&self) -> Vec<u64> {
        let mut shape: Vec<u64> = self.region.iter().map(|range| range.count).collect();
        match (self.form, self.axis) {
            (ComparedForm::Elements, _) | (ComparedForm::Sorted, Some(_)) => {}
            (ComparedForm::Sorted, None) => shape = vec![shape.iter().product()],
            (ComparedForm::Sum, Some(axis)) => shape[axis] = shape[axis].min(1),
            (ComparedForm::Sum, None) => shape = vec![shape.iter().product::<u64>().min(1)],
        }
        shape
    }

    /// What is compared of an output of this shape that holds these values, so many words for each element.
    pub fn of(&self, shape: &[u64], values: &[f64], words: u64) -> Vec<f64> {
        let places = self.places(shape);
        let inside = places.iter().flat_map(|place| (0..words).map(move |word| place * words + word));
        let inside: Vec<f64> = inside.filter_map(|at| values.get(at as usize).copied()).collect();
        match self.form {
            ComparedForm::Elements => inside,
            ComparedForm::Sorted => self.along(inside, |lane| *lane = ascending(lane)),
            // In ascending order, so that the sum does not depend on which place holds which term.
            ComparedForm::Sum => self.along(inside, |lane| {
                let terms = ascending(lane);
                *lane = if terms.is_empty() { terms } else { vec![terms.iter().sum()] };
            }),
        }
    }

    /// Coordinates of one of the compared values: in the buffer where it is an element in its place, and else among
    /// what is compared.
    pub fn at(&self, index: u64) -> Vec<u64> {
        let place = coordinates(index, &self.shape());
        match self.form {
            ComparedForm::Elements => {
                place.iter().zip(&self.region).map(|(at, range)| range.first + at * range.step).collect()
            }
            ComparedForm::Sorted | ComparedForm::Sum => place,
        }
    }

    /// What of an output is compared, in words; what is left out is not checked.
    pub fn describe(&self, shape: &[u64]) -> String {
        let whole = self.region.iter().zip(shape).all(|(own, extent)| *own == AxisRange::all(*extent));
        let axis = self.axis.map_or(String::new(), |axis| format!(" along axis {axis}"));
        let form = match self.form {
            ComparedForm::Elements => String::new(),
            ComparedForm::Sorted => format!("in ascending order{axis}, so not the places of its elements"),
            ComparedForm::Sum => format!("by its sum{axis}, so not its elements"),
        };
        let (inside, all) =
            (self.region.iter().map(|own| own.count).product::<u64>(), shape.iter().product::<u64>());
        let part = format!("in {inside} of {all} elements");
        match (whole, form.is_empty()) {
            (true, true) => "in every element".to_string(),
            (true, false) => form,
            (false, true) => part,
            (false, false) => format!("{part}, {form}"),
        }
    }

    pub fn places(&self, shape: &[u64]) -> Vec<u64> {
        let mut places = vec![0];
        for (range, extent) in self.region.iter().zip(shape) {
            let along = |place: u64| {
                (0..range.count).map(move |number| place * extent + range.first + number * range.step)
            };
            places = places.into_iter().flat_map(along).collect();
        }
        places
    }

    /// Changes each line of values along the axis, or all values at once, and puts what became of them together.
    fn along(&self, values: Vec<f64>, change: impl Fn(&mut Vec<f64>)) -> Vec<f64> {
        let Some(axis) = self.axis else {
            let mut all = values;
            change(&mut all);
            return all;
        };
        let length = self.region[axis].count as usize;
        let inner = self.region[axis + 1..].iter().map(|own| own.count as usize).product::<usize>();
        let mut out = Vec::new();
        for plane in values.chunks((length * inner).max(1)) {
            let lanes: Vec<Vec<f64>> = (0..inner)
                .map(|lane| {
                    let mut own: Vec<f64> = plane.iter().skip(lane).step_by(inner).copied().collect();
                    change(&mut own);
                    own
                })
                .collect();
            let longest = lanes.iter().map(Vec::len).max().unwrap_or(0);
            out.extend(
                (0..longest).flat_map(|at| lanes.iter().filter_map(move |lane| lane.get(at).copied())),
            );
        }
        out
    }
}

/// The values in ascending order, NaN last: which NaN it is means nothing, and neither does the sign of a zero.
fn ascending(values: &[f64]) -> Vec<f64> {
    let plain = |value: &f64| if value.is_nan() { f64::NAN } else { *value + 0.0 };
    let mut sorted: Vec<f64> = values.iter().map(plain).collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

pub fn coordinates(index: u64, shape: &[u64]) -> Vec<u64> {
    let mut rest = index;
    let mut out: Vec<u64> = shape
        .iter()
        .rev()
        .map(|extent| {
            let extent = (*extent).max(1);
            let own = rest % extent;
            rest /= extent;
            own
        })
        .collect();
    out.reverse();
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_indices_become_coordinates() {
        assert_eq!(coordinates(0, &[2, 3, 4]), [0, 0, 0]);
        assert_eq!(coordinates(23, &[2, 3, 4]), [1, 2, 3]);
        assert_eq!(coordinates(5, &[2, 3, 4]), [0, 1, 1]);
    }

    fn view(region: &[(u64, u64, u64)], form: ComparedForm, axis: Option<usize>) -> OutputView {
        let region = region.iter();
        let region =
            region.map(|(first, count, step)| AxisRange { first: *first, count: *count, step: *step });
        OutputView { region: region.collect(), form, axis }
    }

    /// Rows of four: 3 2 1 0, 7 6 5 4, 11 10 9 8.
    fn values() -> Vec<f64> {
        (0..3).flat_map(|row| (0..4).map(move |column| f64::from(4 * row + 3 - column))).collect()
    }

    #[track_caller]
    fn check(own: &OutputView, shape: &[u64], expected: &[f64]) {
        assert_eq!(own.shape(), shape);
        assert_eq!(own.of(&[3, 4], &values(), 1), expected);
        assert_eq!(shape.iter().product::<u64>(), expected.len() as u64);
    }

    #[test]
    fn a_region_is_compared_element_by_element() {
        use ComparedForm::Elements;
        let own = view(&[(1, 2, 1), (0, 2, 2)], Elements, None);
        check(&own, &[2, 2], &[7.0, 5.0, 11.0, 9.0]);
        assert_eq!(own.at(3), [2, 2]);
        assert_eq!(own.describe(&[3, 4]), "in 4 of 12 elements");
        check(&view(&[(0, 3, 1), (2, 0, 1)], Elements, None), &[3, 0], &[]);
    }

    #[test]
    fn order_is_free_along_an_axis_or_altogether() {
        use ComparedForm::Sorted;
        let all = [(0, 3, 1), (0, 4, 1)];
        check(&view(&all, Sorted, None), &[12], &(0..12).map(f64::from).collect::<Vec<_>>());
        let rows = view(&all, Sorted, Some(1));
        check(&rows, &[3, 4], &(0..12).map(f64::from).collect::<Vec<_>>());
        // Columns are ascending already.
        check(&view(&all, Sorted, Some(0)), &[3, 4], &values());
        let words = rows.describe(&[3, 4]);
        assert_eq!(words, "in ascending order along axis 1, so not the places of its elements");
    }

    #[test]
    fn sums_do_not_depend_on_the_order_of_their_terms() {
        use ComparedForm::Sum;
        let all = [(0, 3, 1), (0, 4, 1)];
        check(&view(&all, Sum, None), &[1], &[66.0]);
        check(&view(&all, Sum, Some(1)), &[3, 1], &[6.0, 22.0, 38.0]);
        check(&view(&[(0, 3, 1), (0, 2, 1)], Sum, Some(0)), &[1, 2], &[21.0, 18.0]);
        let own = view(&[(0, 3, 1)], Sum, None);
        let of = |values: [f64; 3]| own.of(&[3], &values, 1)[0].to_bits();
        assert_eq!(of([1e16, 1.0, -1e16]), of([1.0, -1e16, 1e16]));
        assert!(f64::from_bits(of([1.0, f64::NAN, 2.0])).is_nan());
    }

    #[test]
    fn words_of_long_integers_stay_together() {
        let own = view(&[(1, 2, 2)], ComparedForm::Elements, None);
        let words: Vec<f64> = (0..8).map(f64::from).collect();
        assert_eq!(own.of(&[4], &words, 2), [2.0, 3.0, 6.0, 7.0]);
    }
}
