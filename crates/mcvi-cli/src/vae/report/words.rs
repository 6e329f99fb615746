//! Settings and results in words.

use crate::number::{counted, fixed, with_error};
use crate::report::Table;
use crate::vae::results::{Evaluation, beyond, duration, learned_momentum};
use crate::vae::settings::{Binary, ResolvedConfig};
use mcvi::data::Split;
use mcvi::vae::{Architecture, Decay, Deep, EpochReport, Inference, Kernel, Kind, LeapfrogCurve, Momentum};

/// The page's title.
pub fn title(architecture: &Architecture) -> String {
    let kind = match architecture.decoder {
        Kind::Dense => "dense",
        Kind::Conv => "convolutional",
    };
    let start = match architecture.inference {
        Inference::Network => "with an inference network",
        Inference::None => "without an inference network",
    };
    match architecture.leapfrogs {
        0 => format!("A {kind} auto-encoder {start}, no leapfrogs"),
        n => format!("A {kind} auto-encoder {start} and {}", counted(n, "leapfrog")),
    }
}

/// The model, its training and the results.
pub fn facts(
    resolved: &ResolvedConfig,
    model: &Deep,
    epochs: &[EpochReport],
    seconds: &[f64],
) -> Vec<(String, String)> {
    let (a, t) = (&model.architecture, &resolved.training);
    let decoder = match a.decoder {
        Kind::Dense => format!("{} of {} units", counted(a.layers, "hidden layer"), a.hidden),
        Kind::Conv => format!("{} units, then three convolutions of 5 × 5 with upsampling", a.hidden),
    };
    let start = match (a.inference, a.decoder) {
        (Inference::Network, Kind::Dense) => {
            format!("a network of the image with 2 hidden layers of {} units", a.hidden)
        }
        (Inference::Network, Kind::Conv) => format!("three convolutions of the image, then {} units", a.hidden),
        (Inference::None, _) => "one Gaussian for all images".to_owned(),
    };
    let momenta = |kind| match kind {
        Momentum::Constant => "one Gaussian".to_owned(),
        Momentum::Network => "a network of x and z".to_owned(),
        Momentum::Gradient => "a network of x, z and ∇log p(x, z)".to_owned(),
    };
    let decay = match t.decay {
        Decay::None => "held".to_owned(),
        Decay::Cosine => "falling to 0 along half a cosine".to_owned(),
        Decay::Plateau => format!("times {} after {} without a better bound", t.factor, counted(t.patience, "epoch")),
    };
    let [height, width] = a.image;
    let weights: usize = model.params.iter().map(|(_, p)| p.value.shape().size()).sum();
    let mut facts = vec![
        ("Images", format!("{height} × {width} pixels")),
        ("Data", resolved.data.display().to_string()),
        ("Decoder p(x|z)", format!("{} latent variables, {decoder}", a.latent)),
        ("Initial distribution q(z₀|x)", start),
    ];
    if a.leapfrogs > 0 {
        let more = beyond(a);
        let paper = match &more[..] {
            [] if learned_momentum(a) => "as in the paper, which does not say what q(v′) is".to_owned(),
            [] => "as in the paper".to_owned(),
            more => format!("no: {}", more.join("; ")),
        };
        match a.kernel {
            Kernel::Hamiltonian => facts.extend([
                ("Chain", format!("{} of {}", counted(a.steps, "Hamiltonian step"), counted(a.leapfrogs, "leapfrog"))),
                ("Initial momentum q(v′|x, z₀)", momenta(a.momentum)),
                ("Inverse model r(v|x, z)", momenta(a.inverse)),
            ]),
            _ => facts.push(("Chain", a.chain().to_string())),
        }
        facts.push(("The paper's chain", paper));
    } else {
        facts.push(("Chain", "none: an ordinary variational auto-encoder".to_owned()));
    }
    facts.extend([
        ("Parameters", thousands(weights)),
        ("Training", format!("at most {} of batches of {}", counted(t.epochs, "epoch"), t.batch)),
        ("Learning rate", format!("Adam at {}, {decay}; {} times that for the chain", t.rate, t.chain_rate)),
        ("KL warm-up and averaging", format!("over {} and {} epochs", t.warm_up, t.average)),
        ("Weight decay", t.weight_decay.to_string()),
        ("Seed", t.seed.to_string()),
    ]);
    if resolved.binarization == Binary::Fixed {
        facts.push(("Grey images", "made binary once, by the seed".to_owned()));
    }
    if let Some(best) = best(epochs, t.join) {
        let what = if t.join { "Bound of validation images, also trained on" } else { "Validation bound" };
        let bound = format!("{} ± {:.2} nats", fixed(best.valid_bound, 2), best.valid_se);
        facts.push((what, format!("{bound}, after epoch {} of {}", best.epoch, epochs.len())));
        facts.push(("Latent variables in use", format!("{} of {}", best.active, a.latent)));
    }
    if !seconds.is_empty() {
        let (sum, n) = (seconds.iter().sum::<f64>(), seconds.len() as f64);
        facts.push(("Time", format!("{}, {:.1} s per epoch", duration(sum), sum / n)));
    }
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The epoch that was kept: the one with the best validation bound, or the last if the validation images were trained
/// on.
pub fn best(epochs: &[EpochReport], joined: bool) -> Option<&EpochReport> {
    let mut finite = epochs.iter().filter(|e| e.valid_bound.is_finite());
    if joined {
        return finite.next_back();
    }
    finite.max_by(|a, b| a.valid_bound.total_cmp(&b.valid_bound))
}

/// The results of evaluations, or how to run one.
pub fn evaluations(found: &[(Split, Evaluation)], run: &str) -> (String, Option<Table>) {
    if found.is_empty() {
        let text = "None was made yet. To estimate the bound and log p(x) of images the model has not seen:";
        return (format!("{text} mcvi vae evaluate {run} --split test --samples 1000"), None);
    }
    let mut text =
        "The bound, log p(x) by importance sampling with the chain as proposal, and the gap between them: what \
                    the approximate posterior costs. In nats per image, with standard errors over images."
            .to_owned();
    let rows = found.iter().map(|(split, e)| {
        let gap = e.log_p.value.zip(e.bound.value).map_or("∞".to_owned(), |(p, b)| fixed(p - b, 2));
        vec![split.to_string(), thousands(e.images), thousands(e.samples), e.bound.text(2), e.log_p.text(2), gap]
    });
    let rows = rows.collect();
    for (split, e) in found {
        if let Some(data) = &e.data {
            let short: String = data.checksum.chars().take(12).collect();
            text += &format!("\n\nThe {split} images are those of {} (SHA-256 {short}…).", data.folder);
        }
        match e.learned_images {
            Some(learned) if learned == e.images => text += " The model was trained on them.",
            Some(learned) if learned > 0 => text += &format!(" The model was trained on {learned} of them."),
            _ => {}
        }
        if let Some(a) = &e.annealed {
            text += &format!(
                "\n\nChecked on {} of the {split} images by annealing over {} temperatures: log p(x) {}; less what \
                 importance sampling gives on the same images, {}.",
                a.images,
                a.temperatures,
                a.log_p.text(2),
                a.minus_importance_sampling.text(2)
            );
        }
    }
    let columns = ["Images of", "Images", "Samples each", "Bound", "log p(x)", "Gap"].map(str::to_owned).to_vec();
    (text, Some(Table { columns, rows }))
}

/// The effect of each leapfrog, as a table.
pub fn leapfrogs(profile: &LeapfrogCurve) -> Table {
    let columns =
        ["Leapfrogs", "Bound", "Above q(z₀|x)", "log p(x, z)", "Above log p(x, z₀)"].map(str::to_owned).to_vec();
    let start =
        vec!["q(z₀|x) alone".to_owned(), with_error(profile.start, 2), String::new(), String::new(), String::new()];
    let rows = profile.after.iter().map(|s| {
        let numbers = [s.bound, s.gain, s.log_joint, s.climb].map(|mean| with_error(mean, 2));
        [s.leapfrogs.to_string()].into_iter().chain(numbers).collect()
    });
    Table { columns, rows: [start].into_iter().chain(rows).collect() }
}

/// A whole number with thousands separators.
pub fn thousands(n: usize) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
