# DDPRUN_SANITIZE=address,undefined | thread: for everything we compile, so that no object escapes it.
if(DDPRUN_SANITIZE)
  add_compile_options(-fsanitize=${DDPRUN_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${DDPRUN_SANITIZE})
endif()
