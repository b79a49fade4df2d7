//! Crashes tidelog on a simulated disk and checks what is left.
