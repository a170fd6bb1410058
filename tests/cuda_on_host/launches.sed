# CUDA's launches and shared memory in plain C++, for g++: see cuda_runtime.h.
s/<<</->*::asr::cuda_on_host::Launch(/
s/>>>(/)(/
s/extern __shared__ \(__align__([0-9]*) \)\{0,1\}\(.*\) \([a-z_]*\)\[\];/\2* \3 = ::asr::cuda_on_host::shared_memory<\2>();/
