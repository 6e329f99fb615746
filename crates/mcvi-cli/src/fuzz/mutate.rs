//! Mutated inputs, made from a few valid ones. An input depends on its seed and number alone.

/// Longest input.
const LONGEST: usize = 1 << 16;

/// Numbers at the edges of what readers accept.
const NUMBERS: [&str; 28] = [
    "0",
    "-0",
    "1",
    "-1",
    "2",
    "20",
    "21",
    "255",
    "256",
    "257",
    "1000",
    "65535",
    "65536",
    "1048577",
    "1000000000",
    "2147483648",
    "4294967296",
    "9223372036854775808",
    "18446744073709551615",
    "99999999999999999999999",
    "0.5",
    "1e9",
    "1e308",
    "-1e308",
    "1e-320",
    "1e999",
    "nan",
    "inf",
];

/// Pieces of all formats.
const TOKENS: [&str; 44] = [
    "\"",
    "'",
    ",",
    ":",
    ";",
    "\n",
    "\r\n",
    "\t",
    " ",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "[[",
    "]]",
    "=",
    "#",
    "\\",
    "\\u0000",
    "\0",
    "\u{feff}",
    "é",
    "null",
    "true",
    "false",
    "NaN",
    "-inf",
    "Infinity",
    "NA",
    "\"\"",
    "[run.a]",
    "[all]",
    "from = ",
    "'shape': (",
    "<f8",
    "|u1",
    "P2",
    "P5",
    "\u{1f}\u{8b}",
    "sha256",
    "best/",
    "../",
];

/// Pseudorandom numbers: SplitMix64.
pub struct Rng(u64);

impl Rng {
    /// For an input of a target.
    pub fn new(seed: u64, target: &str, number: u64) -> Self {
        let mut rng = Rng(seed);
        for part in target.bytes().map(u64::from).chain([number]) {
            rng.0 = rng.0.wrapping_add(part).wrapping_mul(0x2545_f491_4f6c_dd1d);
            rng.next();
        }
        rng
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    /// A number below n, or 0.
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    /// A short stretch of some bytes; most stretches are very short.
    fn stretch(&mut self, len: usize) -> std::ops::Range<usize> {
        let longest = 1 << self.below(10);
        let from = self.below(len);
        from..(from + 1 + self.below(longest)).min(len)
    }
}

/// The input of this number: one of the seeds, changed in a few places.
pub fn mutated(seeds: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut bytes = seeds.get(rng.below(seeds.len())).cloned().unwrap_or_default();
    // Most inputs have a single mistake: of several, readers see the first.
    for _ in 0..[1, 1, 1, 1, 2, 2, 4, 8][rng.below(8)] {
        change(&mut bytes, seeds, rng);
        bytes.truncate(LONGEST);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], rng: &mut Rng) {
    let at = rng.below(bytes.len());
    match rng.below(14) {
        _ if bytes.is_empty() => bytes.extend((0..rng.below(64)).map(|_| rng.next() as u8)),
        0 => bytes[at] ^= 1 << rng.below(8),
        1 => bytes[at] = rng.next() as u8,
        2 => {
            let some: Vec<u8> = (0..1 + rng.below(8)).map(|_| rng.next() as u8).collect();
            drop(bytes.splice(at..at, some));
        }
        3 => drop(bytes.drain(rng.stretch(bytes.len()))),
        4 => {
            let (range, most) = (rng.stretch(bytes.len()), 1 << rng.below(8));
            let times = 1 + rng.below(most);
            let again = bytes[range.clone()].repeat(times);
            bytes.splice(range.end..range.end, again);
        }
        5 => {
            let other = &seeds[rng.below(seeds.len())];
            let (from, to) = (rng.stretch(other.len()), rng.stretch(bytes.len()));
            bytes.splice(to, other[from].iter().copied());
        }
        6 => bytes.truncate(at),
        // Numbers in binary, of either byte order.
        7 => {
            let edges =
                [0, 1, 2, 0x7f, 0xff, 0x100, 0xffff, 1 << 20, 1 << 30, u32::MAX as u64, 1 << 32, 1 << 40, u64::MAX];
            let n = edges[rng.below(edges.len())];
            let (le, be, width) = (n.to_le_bytes(), n.to_be_bytes(), [2, 4, 8][rng.below(3)]);
            let new = if rng.below(2) == 0 { &le[..width] } else { &be[8 - width..] };
            let end = (at + width).min(bytes.len());
            bytes[at..end].copy_from_slice(&new[..end - at]);
        }
        8 | 9 => {
            let token = TOKENS[rng.below(TOKENS.len())];
            let end = (at + rng.below(2) * token.len()).min(bytes.len());
            bytes.splice(at..end, token.bytes());
        }
        // Numbers as text: the next one becomes another.
        _ => {
            let digit = |byte: &u8| byte.is_ascii_digit() || b".-+eE".contains(byte);
            let Some(from) = bytes[at..].iter().position(u8::is_ascii_digit).map(|from| at + from) else { return };
            let len = bytes[from..].iter().take_while(|byte| digit(byte)).count();
            bytes.splice(from..from + len, NUMBERS[rng.below(NUMBERS.len())].bytes());
        }
    }
}
