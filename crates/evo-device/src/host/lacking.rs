//! Says in one line which part of CUDA a source needs that the host device lacks, from a compiler's log.
//!
//! Such a source is not at fault, and a page of follow-up errors would hide that.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lacking {
    /// `` `cuda_fp4.h` ``, or what a header of ours says in its place.
    what: String,
    /// `k.cu:3:10`, where the compiler tells.
    place: Option<String>,
    /// The source line and the caret below it, as the compiler shows them.
    pub excerpt: String,
}

impl Lacking {
    pub fn message(&self) -> String {
        let place = self.place.as_ref().map_or(String::new(), |place| format!("{place}: "));
        let elsewhere = match self.is_nowhere() {
            true => "evo passes none on any device",
            false => "on CUDA this compiles",
        };
        format!("{place}the host device lacks {}; {elsewhere}", self.what)
    }

    pub fn hint(&self) -> &'static str {
        match self.is_nowhere() {
            true => "read the data through a pointer, with `__ldg` or a `__constant__` variable",
            false => "run with --device cuda",
        }
    }

    /// Whether no launch of evo's could hand it to a kernel: a space file has no such arguments.
    fn is_nowhere(&self) -> bool {
        ["textures", "surfaces"].iter().any(|own| self.what.contains(&format!("({own})")))
    }
}

/// CUDA's names that nothing here answers to, by what they belong to.
const NAMES: [(&str, &str); 8] = [
    (
        "textures",
        "texture cudaTextureObject_t tex1D tex1Dfetch tex1DLod tex1DLayered tex2D tex2DLod \
         tex2DLayered tex2Dgather tex3D tex3DLod texCubemap cudaReadModeElementType \
         cudaReadModeNormalizedFloat",
    ),
    (
        "surfaces",
        "surface cudaSurfaceObject_t surf1Dread surf1Dwrite surf2Dread surf2Dwrite surf2DLayeredread \
         surf2DLayeredwrite surf3Dread surf3Dwrite cudaBoundaryModeTrap cudaBoundaryModeClamp \
         cudaBoundaryModeZero",
    ),
    (
        "groups of threads across blocks of a cluster or several devices",
        "this_multi_grid multi_grid_group this_cluster cluster_group __cluster_barrier_arrive \
         __cluster_barrier_wait __cluster_map_shared_rank __clusterIdx __clusterDim \
         __clusterRelativeBlockRank __cluster_query_shared_rank __threadfence_cluster",
    ),
    (
        "barriers whose two halves stand apart, and barriers with a number",
        "barrier_arrive barrier_wait __barrier_sync_count",
    ),
    ("random numbers of cuRAND", "curandState curandState_t curand_init curand_uniform curand_normal"),
    ("matrix fragments of this shape or type", "nvcuda wmma"),
    ("atomics of 16 bytes", "__nv_atomic_load __u128AtomicCAS __u128AtomicExch"),
    (
        "launches by a kernel",
        "cudaStreamFireAndForget cudaStreamTailLaunch cudaDeviceSynchronize cudaStreamCreateWithFlags",
    ),
];

/// How compilers say that a name means nothing to them.
const UNKNOWN: &str = "was not declared in this scope|has not been declared|does not name a type|is not a member of|\
                       no member named|use of undeclared identifier|unknown type name|is not a namespace-name";

/// What our own headers say in place of something that they lack.
const OWN_WORDS: &str = "the host device lacks ";

pub fn about_missing(log: &str) -> Option<Lacking> {
    let lines: Vec<&str> = log.lines().collect();
    lines.iter().enumerate().find_map(|(at, line)| {
        let (place, said) = line.split_once("error: ")?;
        let place = place.trim_end_matches("fatal ").trim_end_matches([' ', ':']).to_string();
        if let Some((_, own)) = said.split_once(OWN_WORDS) {
            let what = own.split([';', '"']).next().unwrap_or(own).trim();
            let (place, excerpt) = match instantiated(&lines[..at]) {
                // The line of our header below it would say nothing.
                Some(place) => (place, String::new()),
                None => (place, excerpt(&lines[at..])),
            };
            return Some(Lacking { what: what.to_string(), place: Some(place), excerpt });
        }
        let what = missing_header(said).or_else(|| missing_name(said))?;
        let excerpt = excerpt(&lines[at..]);
        Some(Lacking { what, place: Some(place).filter(|place| !place.is_empty()), excerpt })
    })
}

fn quoted(said: &str) -> impl Iterator<Item = &str> {
    said.split(['\'', '`', '‘', '’']).skip(1).step_by(2)
}

fn missing_header(said: &str) -> Option<String> {
    let header = said.strip_suffix(": No such file or directory");
    let header = header.or_else(|| quoted(said).next().filter(|_| said.ends_with("file not found")))?;
    is_of_cuda(header).then(|| format!("`{header}`"))
}

fn missing_name(said: &str) -> Option<String> {
    if !UNKNOWN.split('|').any(|words| said.contains(words)) {
        return None;
    }
    // Compilers say last what else might be meant.
    let said = said.split("did you mean").next().unwrap_or(said);
    let of = |name: &str| {
        NAMES.iter().find(|(_, names)| names.split(' ').any(|known| known == name)).map(|(what, _)| *what)
    };
    quoted(said).find_map(|name| of(name).map(|what| format!("`{name}` ({what})")))
}

/// Where the source asks for a template of ours that refuses: the last place named before the error.
fn instantiated(before: &[&str]) -> Option<String> {
    let line = before.iter().rev().take_while(|line| !line.contains("error: "));
    let mut lines = line.filter(|line| line.contains("required from") || line.contains("requested here"));
    let place = lines.next()?.split(": ").next()?.trim_end_matches(':');
    Some(place.split(":   ").next().unwrap_or(place).trim().to_string())
}

fn excerpt(from: &[&str]) -> String {
    let shown =
        from[1..].iter().take_while(|line| line.contains(" | ") || line.trim_start().starts_with('|'));
    shown.take(2).copied().collect::<Vec<_>>().join("\n")
}

fn is_of_cuda(header: &str) -> bool {
    let begins = match header.contains('/') {
        true => "cuda/ cooperative_groups/ cub/ thrust/ nv/ crt/",
        false => {
            "channel_descriptor cuda cublas curand cusparse cuComplex device_ sm_ vector_ texture_ surface_"
        }
    };
    begins.split(' ').any(|own| header.starts_with(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(log: &str) -> String {
        about_missing(log).map(|lacking| lacking.message()).unwrap_or_default()
    }

    #[test]
    fn what_the_device_lacks_is_told_from_mistakes() {
        let gcc = "k.cu:1:10: fatal error: cuda_fp4.h: No such file or directory\n    1 | #include <cuda_fp4.h>\n      |          ^~~~~~~~~~~~\ncompilation terminated.";
        assert_eq!(said(gcc), "k.cu:1:10: the host device lacks `cuda_fp4.h`; on CUDA this compiles");
        assert_eq!(
            about_missing(gcc).unwrap().excerpt,
            "    1 | #include <cuda_fp4.h>\n      |          ^~~~~~~~~~~~"
        );
        assert_eq!(
            said("k.cu:1:10: fatal error: 'cuda/semaphore' file not found"),
            "k.cu:1:10: the host device lacks `cuda/semaphore`; on CUDA this compiles"
        );
        for (log, name) in [
            ("k.cu:9:12: error: 'this_cluster' is not a member of 'cg'", "this_cluster"),
            (
                "k.cu:9:12: error: no member named 'this_cluster' in namespace 'cooperative_groups'",
                "this_cluster",
            ),
            ("k.cu:9:12: error: ‘tex2D’ was not declared in this scope; did you mean ‘rtex’?", "tex2D"),
            ("k.cu:9:12: error: use of undeclared identifier 'tex2D'", "tex2D"),
            (
                "k.cu:9:12: error: ‘class cooperative_groups::thread_block’ has no member named ‘barrier_wait’",
                "barrier_wait",
            ),
        ] {
            let expected = format!("k.cu:9:12: the host device lacks `{name}` (");
            assert!(said(log).starts_with(&expected), "{}", said(log));
        }
        for own in [
            "k.cu:1:10: fatal error: mine.h: No such file or directory",
            "k.cu:3:1: error: ‘x’ was not declared in this scope; did you mean ‘tex2D’?",
            "k.cu:3:1: error: redefinition of ‘float tex2D’",
        ] {
            assert_eq!(said(own), "", "{own}");
        }
    }

    #[test]
    fn what_a_header_refuses_is_said_where_the_source_asks_for_it() {
        let log = "evo_cuda.h: In instantiation of ‘class tile<64>’:\nk.cu:5:47:   required from here\nevo_cuda.h:7:24: error: static assertion failed: the host device lacks tiles of more than 32 threads; on CUDA this compiles\n    7 | static_assert";
        assert_eq!(
            said(log),
            "k.cu:5:47: the host device lacks tiles of more than 32 threads; on CUDA this compiles"
        );
        assert_eq!(about_missing(log).unwrap().excerpt, "");
    }
}
