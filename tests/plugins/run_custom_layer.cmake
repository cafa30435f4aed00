# Runs the installed LeNet with the example's plug-in: the layers are really others, actors and oracle agree on them, and
# a plug-in that does not fit is refused in one line. Needs PREFIX, PLUGIN, BAD_PLUGIN, ALTERED_PLUGIN and FOLDER.
file(MAKE_DIRECTORY ${FOLDER})

# train(HASH arguments...): the weights' hash after a few steps.
function(train hash)
  set(metrics ${FOLDER}/${hash}.jsonl)
  file(REMOVE ${metrics})
  execute_process(COMMAND ${PREFIX}/bin/lenet --data synthetic --batch 16 --steps 6 --stages 2 --threads 1
    --metrics ${metrics} ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "lenet ${ARGN} ended with ${code}\n${output}${errors}")
  endif()
  file(STRINGS ${metrics} lines REGEX "\"summary\"")
  string(JSON found GET "${lines}" weights_sha256)
  set(${hash} ${found} PARENT_SCOPE)
endfunction()

train(plain)
train(actors --plugin ${PLUGIN} --replace-layer relu=swish)
train(oracle --plugin ${PLUGIN} --replace-layer relu=swish --executor oracle)
train(other --plugin ${PLUGIN} --replace-layer relu=swish --replace-layer relu3=leaky_relu:slope=0.2)
if(NOT actors STREQUAL oracle)
  message(FATAL_ERROR "actors ${actors} and oracle ${oracle} differ")
endif()
if(actors STREQUAL plain OR actors STREQUAL other OR other STREQUAL plain)
  message(FATAL_ERROR "replacing layers changed nothing: ${plain} ${actors} ${other}")
endif()

# refuse(TEXT arguments...): exit code 2 and one line on stderr that has the text.
function(refuse text)
  execute_process(COMMAND ${PREFIX}/bin/lenet --data synthetic --steps 1 ${ARGN}
    RESULT_VARIABLE code OUTPUT_VARIABLE output ERROR_VARIABLE errors)
  string(FIND "${errors}" "${text}" at)
  if(NOT code EQUAL 2 OR at EQUAL -1 OR NOT errors MATCHES "^[^\n]*\n?$")
    message(FATAL_ERROR "lenet ${ARGN}: wanted exit code 2 and '${text}', found ${code} and '${errors}'")
  endif()
endfunction()

refuse("built for ABI 7 with g++ 11.3" --plugin ${BAD_PLUGIN})
refuse("${ALTERED_PLUGIN}: built for ABI " --plugin ${ALTERED_PLUGIN})
refuse("did you mean 'relu'" --plugin ${PLUGIN} --replace-layer rleu=swish)
refuse("option 'slope' is 'steep'" --plugin ${PLUGIN} --replace-layer relu=leaky_relu:slope=steep)
refuse("no plug-in layers are loaded" --replace-layer relu=swish)
