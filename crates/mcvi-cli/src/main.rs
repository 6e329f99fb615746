//! The command `mcvi`.

fn main() -> std::process::ExitCode {
    mcvi_cli::main()
}
