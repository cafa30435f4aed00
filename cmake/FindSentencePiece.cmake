# sentencepiece from the system package, which ships no CMake config: imports sentencepiece::sentencepiece (models) and
# sentencepiece::train (making them).
include(FindPackageHandleStandardArgs)
find_path(SENTENCEPIECE_INCLUDE_DIR sentencepiece_processor.h)
find_library(SENTENCEPIECE_LIBRARY sentencepiece)
find_library(SENTENCEPIECE_TRAIN_LIBRARY sentencepiece_train)
find_package_handle_standard_args(SentencePiece
  REQUIRED_VARS SENTENCEPIECE_LIBRARY SENTENCEPIECE_TRAIN_LIBRARY SENTENCEPIECE_INCLUDE_DIR)
if(SENTENCEPIECE_FOUND AND NOT TARGET sentencepiece::sentencepiece)
  add_library(sentencepiece::sentencepiece SHARED IMPORTED)
  set_target_properties(sentencepiece::sentencepiece PROPERTIES IMPORTED_LOCATION "${SENTENCEPIECE_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${SENTENCEPIECE_INCLUDE_DIR}")
  add_library(sentencepiece::train SHARED IMPORTED)
  set_target_properties(sentencepiece::train PROPERTIES IMPORTED_LOCATION "${SENTENCEPIECE_TRAIN_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${SENTENCEPIECE_INCLUDE_DIR}" INTERFACE_LINK_LIBRARIES sentencepiece::sentencepiece)
endif()
