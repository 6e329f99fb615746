//! The report as a browser shows it, where there is one: all that belongs there is there, in light and in dark.

mod common;

use common::gaussians;
use mcvi_cli::report::{Page, ParameterRow, Section, Verdict, VerdictKind, figures, render};
use resvg::tiny_skia::Pixmap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A browser that can open a page here: some start and then lack what they need of the machine.
fn browser() -> Option<&'static str> {
    let starts = |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|o| o.status.success());
    let blank = Path::new(env!("CARGO_TARGET_TMPDIR")).join("blank.html");
    std::fs::write(&blank, "<p>here</p>").expect("written");
    let opens = |name: &&str| {
        let dump = try_open(name, &blank, &["--dump-dom".to_owned()]);
        dump.is_some_and(|o| o.status.success() && String::from_utf8_lossy(&o.stdout).contains("here"))
    };
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| starts(name) && opens(name))
}

/// Open a page without a window and with a profile of its own.
fn open(browser: &str, page: &Path, options: &[String]) -> Output {
    try_open(browser, page, options).expect("the browser ends")
}

/// The same, not for longer than two minutes.
fn try_open(browser: &str, page: &Path, options: &[String]) -> Option<Output> {
    let profile = tempfile::tempdir().expect("a folder");
    let out = tempfile::NamedTempFile::new().expect("a file");
    let mut child = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--virtual-time-budget=2000"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(options)
        .arg(format!("file://{}", page.display()))
        .stdout(out.reopen().expect("a file"))
        .stderr(Stdio::null())
        .spawn()
        .expect("the browser starts");
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("the browser is watched") {
            break status;
        }
        if start.elapsed() > Duration::from_secs(120) {
            let _ = child.kill();
            return None;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    Some(Output { status, stdout: std::fs::read(out.path()).expect("read"), stderr: vec![] })
}

fn screenshot(browser: &str, page: &Path, name: &str, size: (u32, u32), dark: bool) -> Pixmap {
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&to);
    let scheme = if dark { 0 } else { 1 };
    let options = [
        format!("--screenshot={}", to.display()),
        format!("--window-size={},{}", size.0, size.1),
        format!("--blink-settings=preferredColorScheme={scheme}"),
    ];
    assert!(open(browser, page, &options).status.success());
    eprintln!("see {}", to.display());
    Pixmap::load_png(&to).expect("an image")
}

/// How light the page's upper left corner is.
fn ground(image: &Pixmap) -> u8 {
    image.pixel(2, 2).expect("a pixel").green()
}

#[test]
fn a_browser_shows_all_of_it() {
    let Some(browser) = browser() else {
        eprintln!("skipped: neither chromium, chromium-browser nor google-chrome opens a page here");
        return;
    };
    for (kind, name) in
        [(VerdictKind::Good, "good"), (VerdictKind::Reweight, "reweight"), (VerdictKind::DoNotTrust, "do-not-trust")]
    {
        let page = page(kind);
        let html = render(&page);
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("report-{name}.html"));
        std::fs::write(&path, &html).expect("written");
        let dump = open(browser, &path, &["--dump-dom".to_owned()]);
        assert!(dump.status.success());
        let dom = String::from_utf8(dump.stdout).expect("text");
        assert_eq!(dom.matches("<figure>").count(), page.sections.len());
        assert_eq!(dom.matches("<svg role=\"img\"").count(), page.sections.len());
        assert_eq!(dom.matches("<th scope=\"row\">").count(), page.parameters.len());
        for section in &page.sections {
            let title = section.title.replace('&', "&amp;");
            assert!(dom.contains(&format!("aria-label=\"{title}\"")), "{title}");
        }
        // Had the parser mended anything, elements would be nested or numbered otherwise.
        for tag in ["<section", "<div", "<path", "<text", "<tr>", "<li>", "</svg>"] {
            assert_eq!(dom.matches(tag).count(), html.matches(tag).count(), "{tag}");
        }
        let light = screenshot(browser, &path, &format!("report-{name}.png"), (1000, 1400), false);
        let dark = screenshot(browser, &path, &format!("report-{name}-dark.png"), (1000, 1400), true);
        assert!(ground(&light) > 230 && ground(&dark) < 50, "{} {}", ground(&light), ground(&dark));
    }
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("report-good.html");
    screenshot(browser, &path, "report-long.png", (1000, 5700), false);
    screenshot(browser, &path, "report-long-dark.png", (1000, 5700), true);
    screenshot(browser, &path, "report-narrow.png", (500, 2400), false);
}

fn page(kind: VerdictKind) -> Page {
    let n = 4000;
    let scaled = |seed, mean: f64, sd: f64| -> Vec<f64> { gaussians(seed, n).iter().map(|x| mean + sd * x).collect() };
    let (mu, log_tau) = (scaled(1, 4.4, 3.3), scaled(2, 1.6, 0.7));
    let mut parameters =
        vec![("mu".to_owned(), mu.clone()), ("tau".to_owned(), log_tau.iter().map(|x| x.exp()).collect::<Vec<f64>>())];
    for school in 0..8 {
        let own = gaussians(10 + school, n);
        let theta = mu.iter().zip(&log_tau).zip(own).map(|((m, t), z)| m + 0.5 * t.exp() * z).collect();
        parameters.push((format!("theta[{school}]"), theta));
    }
    for i in 0..20 {
        parameters.push((format!("beta[{i}, intercept of the {i}th group]"), scaled(40 + i, -0.002, 0.0004)));
    }
    let rows = parameters.iter().map(|(name, draws)| summary(name, draws)).collect();

    let noise = gaussians(90, 1000);
    let trace: Vec<(f64, f64, f64)> = (0..1000)
        .map(|i| (f64::from(i) * 10.0, -31.2 - 400.0 * (-f64::from(i) / 40.0).exp() + 0.08 * noise[i as usize], 0.08))
        .collect();
    let counts = |seed: u64| gaussians(seed, 60).iter().map(|x| (3.0 + 1.8 * x).max(0.0).round()).collect::<Vec<f64>>();
    let replicates: Vec<Vec<f64>> = (0..100).map(|i| counts(200 + i)).collect();
    let real: Vec<Vec<f64>> = (0..100).map(|i| gaussians(400 + i, 200)).collect();
    let steps: Vec<(f64, f64)> = (0..6).map(|i| (0.9 * 0.5_f64.powi(i), 0.02)).collect();
    let weights: Vec<f64> = gaussians(5, n).iter().map(|x| 0.6 * x - 31.4).collect();
    let section = |title: &str, text: &str, figure: mcvi_cli::plot::Figure| Section {
        title: title.to_owned(),
        text: text.to_owned(),
        figure: Some(figure.to_svg()),
        table: None,
    };
    let sections = vec![
        section(
            "The bound while fitting",
            "The lower bound on log p(x) at each check. A level end says that more iterations would change little.",
            figures::bound_trace(&trace),
        ),
        section(
            "Marginals",
            "Histograms of the draws; the filled part holds 90% of them.",
            figures::marginals(&parameters),
        ),
        section(
            "Pairs",
            "Draws of the first four parameters against each other.\n\nA funnel is hard for any method.",
            figures::pairs(&parameters),
        ),
        section(
            "Predictive check",
            "Data sets drawn from the fitted model beside the observed one.",
            figures::predictive_check(&counts(7), &replicates),
        ),
        section(
            "Predictive check of x & y",
            "The same of real numbers.",
            figures::predictive_check(&gaussians(8, 200), &real),
        ),
        section("What each step contributes", "The bound is their sum.", figures::contributions((-33.0, 0.05), &steps)),
        section("Weights", "", figures::weights(&weights, 0.43)),
    ];
    let (headline, reasons, next) = match kind {
        VerdictKind::Good => (
            "The draws can be used as they are.",
            vec![
                "The tail of the weights is light: k̂ = 0.43, below 0.7.",
                "The bound is level: −31.21 ± 0.02 over the last half.",
            ],
            vec!["Look at the predictive check: a good fit of a wrong model is still wrong."],
        ),
        VerdictKind::Reweight => (
            "The draws should be used with their weights.",
            vec!["The weights are uneven, with k̂ = 0.62: 1,240 of 4,000 draws' worth are left."],
            vec!["Use the column log_weight of draws.csv.", "Or fit longer: --iterations 20000."],
        ),
        VerdictKind::DoNotTrust => (
            "The draws say little about the posterior.",
            vec![
                "The tail of the weights is heavy: k̂ = 1.31, above 0.7.",
                "The bound was still rising when the fit ended.",
            ],
            vec!["Fit longer: --iterations 20000.", "Add steps to the chain: --steps 8."],
        ),
    };
    let owned = |items: Vec<&str>| items.into_iter().map(str::to_owned).collect();
    let facts = [
        ("Lower bound on log p(x)", "−31.21 ± 0.02"),
        ("Estimate of log p(x)", "−31.05 ± 0.03"),
        ("Draws", "4,000"),
        ("Chain", "4 Hamiltonian steps, 5 leapfrogs each"),
        ("Time", "12.4 s on 2 threads"),
        ("Seed", "1"),
    ];
    Page {
        title: "eight-schools.mcvi: the effects of coaching in eight schools".to_owned(),
        verdict: Some(Verdict { kind, headline: headline.to_owned(), reasons: owned(reasons), next: owned(next) }),
        facts: facts.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec(),
        parameters: rows,
        sections,
        footer: "Made by mcvi 0.1.0: mcvi fit eight-schools.mcvi --data schools.csv --seed 1".to_owned(),
    }
}

fn summary(name: &str, draws: &[f64]) -> ParameterRow {
    let n = draws.len() as f64;
    let mean = draws.iter().sum::<f64>() / n;
    let sd = (draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0)).sqrt();
    let mut sorted = draws.to_vec();
    sorted.sort_by(f64::total_cmp);
    let q = |share: f64| sorted[(share * (n - 1.0)) as usize];
    ParameterRow { name: name.to_owned(), is_internal: false, mean, sd, q05: q(0.05), q50: q(0.5), q95: q(0.95) }
}
