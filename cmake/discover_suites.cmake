# Run after a test binary is linked: registers each of its suites with ctest.
#   cmake -DPROGRAM=... -DNAME=... -DLABEL=... -DOUTPUT=... -P discover_suites.cmake
execute_process(COMMAND ${PROGRAM} --gtest_list_tests OUTPUT_VARIABLE listing COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "\n[^ \n]+\\." suites "\n${listing}")
set(script "")
foreach(suite ${suites})
  string(REGEX REPLACE "^\n(.*)\\.$" "\\1" suite "${suite}")
  string(APPEND script "add_test([=[${NAME}: ${suite}]=] [=[${PROGRAM}]=] [=[--gtest_filter=${suite}.*]=])\n"
    "set_tests_properties([=[${NAME}: ${suite}]=] PROPERTIES LABELS ${LABEL})\n")
endforeach()
file(WRITE ${OUTPUT} "${script}")
