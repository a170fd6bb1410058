// Holds the shared precompiled header; nothing else.
